//! The shield: what is protected, the flows that are known, and what became of packets.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// What is asked for.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// The whole shield.
    Show,
    /// What is protected: a stream of [`Reply::Protections`].
    Protections,
    /// A protection more.
    Add(Protect),
    /// Other Grantors, other weights, another shadow.
    Change {
        /// Its prefix.
        prefix: String,
        /// What it does: that never changes.
        #[serde(default)]
        action: Action,
        /// Who is to decide.
        #[serde(default)]
        grantors: Vec<Grantor>,
        /// Whether it is to have a shadow; absent: as it is.
        #[serde(default)]
        shadow: Option<bool>,
        /// Its flows are forgotten, also where they could stay.
        flush: bool,
    },
    /// A protection less; its flows are forgotten.
    Del {
        /// Its prefix.
        prefix: String,
    },
    /// What decisions may name by a number: [`Reply::Programs`].
    Programs,
    /// Other code under a number; what was there stays where it is refused.
    LoadProgram {
        /// The number.
        index: u8,
        /// The file of the object, as the daemon sees it: an absolute path.
        object: String,
        /// What it is shown as; absent: the file's name.
        #[serde(default)]
        name: Option<String>,
    },
    /// What was loaded under a number goes; what comes with Rutter is back.
    UnloadProgram {
        /// The number.
        index: u8,
    },
    /// What is known of flows: a stream of [`Reply::Flows`].
    Flows {
        /// Which.
        filter: Filter,
        /// At most so many.
        limit: Option<u64>,
    },
    /// Forgets flows: [`Reply::Flushed`].
    Flush {
        /// Which.
        filter: Filter,
    },
    /// Packets of a protection are judged, and go on whatever the verdict; or no longer so.
    Shadow {
        /// Its prefix.
        prefix: String,
        /// Whether they are to.
        on: bool,
    },
}

/// What is answered.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// To [`Request::Show`].
    Show(Box<Shield>),
    /// To [`Request::Protections`].
    Protections(Vec<Protected>),
    /// To [`Request::Programs`].
    Programs(Vec<Program>),
    /// To [`Request::Flows`].
    Flows(Vec<Flow>),
    /// To [`Request::Flush`]: so many flows.
    Flushed(u64),
}

/// A protection.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Protect {
    /// What it covers.
    pub prefix: String,
    /// What happens to packets.
    #[serde(default)]
    pub action: Action,
    /// Who decides.
    #[serde(default)]
    pub grantors: Vec<Grantor>,
    /// Verdicts are counted, and packets go on whatever they are.
    #[serde(default)]
    pub shadow: bool,
}

/// What happens to packets of a protection.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Its Grantors decide.
    #[default]
    Protect,
    /// They go on by their route, to the back.
    Bypass,
    /// They are dropped.
    Drop,
}

/// A Grantor, as a protection names it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Grantor {
    /// Its address.
    pub address: IpAddr,
    /// Its share of the flows.
    #[serde(default = "one")]
    pub weight: u16,
    /// It is asked in shadow, and forwards nothing.
    #[serde(default)]
    pub shadow: bool,
}

fn one() -> u16 {
    1
}

/// What decisions name by a number.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Program {
    /// The number.
    pub index: u8,
    /// Its name.
    pub name: String,
    /// The file of its object; `rutter` where it comes with Rutter.
    pub object: String,
    /// What runs it: `built in`, `compiled`, `interpreter`.
    pub engine: String,
    /// Of its `init` and its `pkt`.
    pub instructions: Option<[u32; 2]>,
    /// Packets that were dropped because it failed: of all programs that had this number.
    pub failed: u64,
    /// Decisions whose parameters it refused, likewise.
    pub refused: u64,
}

/// Which flows: what is given must all be so.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Filter {
    /// From sources in this prefix.
    pub from: Option<String>,
    /// To destinations in this prefix.
    pub to: Option<String>,
    /// In this state.
    pub state: Option<State>,
    /// Decided by the program of this number.
    #[serde(default)]
    pub program: Option<u8>,
    /// Of the protection of this prefix.
    pub protection: Option<String>,
    /// Whose packets go to this Grantor.
    pub grantor: Option<IpAddr>,
}

/// What is known of a flow.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nothing is decided.
    Request,
    /// It has a budget.
    Granted,
    /// It gets nothing.
    Declined,
    /// A program says.
    Program,
}

/// A flow.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Flow {
    /// Source.
    pub from: IpAddr,
    /// Destination.
    pub to: IpAddr,
    /// Its state.
    pub state: State,
    /// The prefix of its protection; none where that has gone, or has changed.
    pub protection: Option<String>,
    /// Where its packets go.
    pub grantor: Option<IpAddr>,
    /// Milliseconds until the decision ends, or the request is forgotten.
    pub left_ms: u64,
    /// Of a request: its priority (0 to 63) without what it is raised by.
    pub priority: Option<u8>,
    /// Of a request: packets that may have this priority without having waited.
    pub allowance: Option<u8>,
    /// Of a request: milliseconds since its last packet.
    pub seen_ms: Option<u64>,
    /// Of a grant, by the built-in program 0 too: KiB a second.
    pub rate_kib: Option<u32>,
    /// Of such: bytes left of this second's.
    pub budget: Option<u64>,
    /// Of a program: its number.
    pub program: Option<u8>,
    /// The worker that has it.
    pub worker: u16,
}

/// The shield.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Shield {
    /// Interfaces by which the world comes in.
    pub front: Vec<String>,
    /// Interfaces towards what is protected.
    pub back: Vec<String>,
    /// What asks Grantors, and hears them.
    pub from: Vec<IpAddr>,
    /// The UDP ports of decisions: from, to.
    pub ports: [u16; 2],
    /// Whose decisions count.
    pub decisions_from: String,
    /// Protected prefixes.
    pub protections: u64,
    /// Of those, in shadow.
    pub shadows: u64,
    /// All packets for what is protected, but for shadows.
    pub verdicts: Verdicts,
    /// What would have become of the packets of shadows.
    #[serde(default)]
    pub shadow_verdicts: Verdicts,
    /// Requests of shadows, by what the channel did, or would have done.
    #[serde(default)]
    pub shadow_requests: Vec<Count>,
    /// The table of flows, all workers together.
    pub flows: Flows,
    /// The request channel.
    pub requests: Requests,
    /// Decisions that came, by what became of them.
    pub decisions: Vec<Count>,
    /// ICMP errors that were sent, by what they are about; `too_long_beyond`: heard from routers
    /// behind the back, about packets with their outer header.
    #[serde(default)]
    pub errors: Vec<Count>,
    /// Packets that the shield's nodes dropped, by node and reason.
    pub drops: Vec<Count>,
    /// Who decides.
    pub grantors: Vec<GrantorState>,
    /// What is most of [`Protected::drops`], the most first.
    #[serde(default)]
    pub protection_drops: Vec<Dropped>,
}

/// A counter and its name.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Count {
    /// Of what.
    pub what: String,
    /// How many.
    pub count: u64,
}

/// A Grantor, and the way to it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct GrantorState {
    /// Its address.
    pub address: IpAddr,
    /// By which interfaces it is reached.
    pub by: Vec<String>,
    /// Why it is not; empty where it is.
    pub fault: String,
}

/// The table of flows.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Flows {
    /// The engine.
    pub table: String,
    /// What becomes of a new flow in a full table.
    pub full: String,
    /// Flows that it may hold.
    pub limit: u64,
    /// Bytes of memory.
    pub bytes: u64,
    /// Flows by class: requests; declined and never-used grants; used grants.
    pub held: [u64; 3],
    /// Flows that made room for others, by class.
    pub replaced: [u64; 3],
    /// Flows whose time had come, by class.
    pub expired: [u64; 3],
    /// Flows that were flushed, by class.
    pub removed: [u64; 3],
    /// New flows without a place.
    pub refused: u64,
    /// New flows that were not tried, after one without a place.
    pub untried: u64,
    /// Decided flows, and how many there may be.
    pub decided: [u64; 2],
}

/// The request channel.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Requests {
    /// What the protected network can receive, in bits a second.
    pub bandwidth: u64,
    /// Bytes of requests a second.
    pub bytes_per_s: u64,
    /// Decisions a second that are made on this machine; none where it makes none.
    #[serde(default)]
    pub decisions_per_s: Option<u64>,
    /// Requests that wait.
    pub waiting: u64,
    /// Requests that there is room for.
    pub room: u64,
}

/// Packets and bytes, by verdict. Bytes of requests, and of what a program grants, are those of
/// frames as they would leave, of the others those of frames as they came.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Verdicts {
    pub requests: u64,
    pub request_bytes: u64,
    pub granted: u64,
    pub granted_bytes: u64,
    /// Those beyond a budget too.
    pub declined: u64,
    pub declined_bytes: u64,
    /// For want of a place in the table, because a program failed, or by a protection that drops.
    pub dropped: u64,
    pub dropped_bytes: u64,
}

/// A protection that is in.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Protected {
    /// The protection.
    pub protect: Protect,
    /// Its Grantors that cannot be reached, and why.
    pub faults: Vec<GrantorState>,
    /// Routing daemons see it.
    pub shown: bool,
    /// The front view has it; where it has not, its packets are dropped.
    pub in_table: bool,
    /// A network of this router's own that it hides from the front.
    pub hides: Option<String>,
    /// Since it is there, but for when it was a shadow.
    pub verdicts: Verdicts,
    /// What would have become of its packets while it was one.
    #[serde(default)]
    pub shadow_verdicts: Verdicts,
    /// Its requests while it was one, by what the channel did, or would have done.
    #[serde(default)]
    pub shadow_requests: Vec<Count>,
    /// Decisions for it that came, by what became of them.
    #[serde(default)]
    pub decisions: Vec<Count>,
    /// Packets of its own that were dropped, by node and reason: all, also those that never were.
    /// What a change overtook on its way (`shield.changed`) is of no protection.
    /// `icmp_error.reported`: packets too long for the back, whose sources are sent an ICMP error.
    #[serde(default)]
    pub drops: Vec<Count>,
    /// Of a bypass: packets that were let pass. They may be dropped later, for want of a way.
    #[serde(default)]
    pub bypassed: u64,
    /// Bytes of their frames, without what is behind the packets.
    #[serde(default)]
    pub bypassed_bytes: u64,
}

/// Packets of a protection that were dropped for one reason.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Dropped {
    /// Its prefix.
    pub prefix: String,
    /// The node and its reason.
    pub what: String,
    /// How many.
    pub count: u64,
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Action::Protect => "protect",
            Action::Bypass => "bypass",
            Action::Drop => "drop",
        })
    }
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            State::Request => "request",
            State::Granted => "granted",
            State::Declined => "declined",
            State::Program => "program",
        })
    }
}

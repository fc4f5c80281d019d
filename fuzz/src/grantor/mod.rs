//! A worker of a Grantor between Gatekeepers and what it serves, driven by bytes: what
//! Gatekeepers send, and what they cannot have sent; frames of both sides; a policy that is
//! full, silent, late or wrong; options; ports and neighbours that come and go; and a clock
//! that jumps forwards and backwards. After each step
//!
//! - the accounting law holds, and no packet is lost to the pool
//! - what left for Gatekeepers is a message that they can read, to one of them
//! - it is no relay: of what came wrapped nothing left but for what is served, unwrapped
//!   (until other frames have come, which are routed)
//!
//! ```text
//!  bytes:  operation, arguments │ operation, arguments │ …
//!    0 client, service, DSCP, kind, length, place     a packet of a Gatekeeper
//!    1 length, bytes                                  a frame from there, whatever it is
//!    2 length, bytes                                  a frame from what is served
//!    3 how                                            the policy answers from now on
//!    4 what                                           neighbours, MTU
//!    5 options
//!    6 shift                  time goes 2^(shift & 63) ticks on, or back (bit 7)
//!    7 there                  the port of the Gatekeepers
//! ```

mod packets;
pub mod seeds;
mod site;

use std::collections::BTreeMap;
use std::sync::Arc;

use io::Port;
use lookup::sync::{Domain, Published};
use nodes::grantor::settings::{Counters, Settings};
use nodes::grantor::{ENTRY, Parts, add};
use nodes::switch::Bridging;
use nodes::{router, switch};
use tables::Control;
use tables::event::NeighbourState;
use wire::ggu::{Message, Ports};

use crate::says::Policy;
use crate::site::{MACS, link, neighbour};
use crate::worker::Worker;
use packets::packet;
use site::{GATEKEEPER, SERVED, control, settings};

/// Bytes as what happens to a Grantor.
pub fn grantor(bytes: &[u8]) {
    reached(bytes);
}

/// What it drops with these bytes, by node and reason, and what it does with the rest.
pub fn reached(bytes: &[u8]) -> BTreeMap<String, u64> {
    let mut world = World::new();
    let mut rest = bytes;
    for _ in 0..1_024 {
        let Some((&code, more)) = rest.split_first() else { break };
        rest = more;
        let length = match code & 7 {
            0 => 6,
            1 | 2 => {
                let Some((&length, more)) = rest.split_first() else { break };
                rest = more;
                usize::from(length)
            }
            _ => 1,
        };
        let Some((arguments, more)) = rest.split_at_checked(length) else { break };
        rest = more;
        world.does(code & 7, arguments);
        world.run();
    }
    world.end()
}

struct World {
    worker: Worker,
    /// The port of the Gatekeepers, while it is not there.
    gone: Option<Box<dyn Port>>,
    control: Control,
    settings: Arc<Published<Settings>>,
    counters: Arc<Counters>,
    policy: Policy,
    /// Frames have come that are routed.
    routed: bool,
}

impl World {
    fn new() -> World {
        let domain = Domain::new();
        let control = control(&domain);
        let settings = Arc::new(Published::new(&domain, settings(0)));
        let counters = Counters::new();
        let policy = Policy::new(true);
        let parts = Parts {
            settings: settings.clone(),
            counters: counters.clone(),
            asker: Some(Box::new(policy.clone())),
            capacity: 16,
            fragments: 80,
        };
        let worker = Worker::new(&domain, &control, |assembly| {
            let assembly = router::add(switch::add(assembly, Bridging::none()));
            router::tunnels(add(assembly, parts, None), (false, false), ENTRY)
        });
        World { worker, gone: None, control, settings, counters, policy, routed: false }
    }

    fn does(&mut self, code: u8, arguments: &[u8]) {
        match (code, arguments) {
            (0, &[client, service, dscp, kind, len, place]) => {
                self.worker.peers[0].push(&packet([client, service, dscp, kind, len, place]));
            }
            (1, bytes) => {
                self.routed = true;
                self.worker.peers[0].push(&[&MACS[0][..], &GATEKEEPER, bytes].concat());
            }
            (2, bytes) => {
                self.routed = true;
                self.worker.peers[1].push(&[&MACS[1][..], &SERVED, bytes].concat());
            }
            (3, &[how]) => self.policy.answers(how),
            (4, &[what]) => {
                let up = what & 1 == 1;
                let state = if up { NeighbourState::Reachable } else { NeighbourState::Failed };
                let mtu = if what & 2 == 2 { 100 } else { 1_500 };
                self.control.handle(&[
                    neighbour(1, "10.0.2.1", GATEKEEPER, state),
                    neighbour(1, "2001:db8:2::1", GATEKEEPER, state),
                    neighbour(2, "10.0.3.9", SERVED, state),
                    link(1, mtu),
                ]);
                self.control.commit();
            }
            (5, &[options]) => self.settings.publish(settings(options)),
            (7, &[there]) => match (there & 1, self.gone.take()) {
                (0, None) => self.gone = self.worker.graph.ports().remove(0),
                (1, Some(port)) => drop(self.worker.graph.ports().set(0, port)),
                (_, before) => self.gone = before,
            },
            (_, &[shift, ..]) => self.worker.jump(shift),
            _ => {}
        }
    }

    fn run(&mut self) {
        self.worker.run(self.gone.is_none());
        while self.worker.kernel.pop(|_, _| ()).is_some() {}
        for frame in self.worker.peers[0].take() {
            let is_message = match frame[12..14] {
                [8, 0] => frame[23] == 17 && frame[34..38] == PORTS,
                _ => frame[20] == 17 && frame[54..58] == PORTS,
            };
            if !is_message {
                assert!(self.routed, "left for Gatekeepers: {frame:x?}");
                continue;
            }
            let mut known = false;
            let to = |ip: std::net::IpAddr| {
                let ip = ip.to_string();
                known = ip == "10.0.2.1" || ip.starts_with("10.0.1.") || ip == "2001:db8:2::1";
                true
            };
            let message = Message::receive(&frame[14..], Ports::default(), to);
            let message = message.unwrap_or_else(|error| panic!("{error:?}: {frame:x?}"));
            assert!(known || self.routed, "a message to a stranger: {frame:x?}");
            assert!(message.decisions().all(|decision| decision.is_ok()) || self.routed);
        }
        for frame in self.worker.peers[1].take() {
            let served = match frame[12..14] {
                [8, 0] => frame[30..32] == [10, 20] && frame[23] != 4 && frame[23] != 41,
                _ => frame[38..44] == [0x20, 1, 0x0d, 0xb8, 0, 0x20] && frame[20] != 41,
            };
            assert!(served || self.routed, "left for others than are served: {frame:x?}");
        }
    }

    fn end(mut self) -> BTreeMap<String, u64> {
        if let Some(port) = self.gone.take() {
            drop(self.worker.graph.ports().set(0, port));
        }
        let of = &self.counters;
        let counts = [
            ("passed", &of.passed),
            ("renewals", &of.renewals),
            ("requests", &of.requests),
            ("whole", &of.whole),
            ("joined", &of.joined),
            ("apart", &of.apart),
            ("punished", &of.punished),
            ("refused", &of.refused),
            ("forwarded", &of.forwarded),
            ("denied", &of.denied),
            ("undecided", &of.undecided),
            ("late", &of.late),
            ("overdue", &of.overdue),
            ("shed", &of.shed),
            ("decisions", &of.decisions),
            ("messages", &of.messages),
            ("unsent", &of.unsent),
        ];
        self.worker.end(&counts).1
    }
}

/// The ports of messages, from and to.
const PORTS: [u8; 4] = [0xa0, 0xa0, 0xb0, 0xb0];

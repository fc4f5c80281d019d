//! Programs of the deployed Gatekeeper: eBPF objects that say what a flow may do.
//!
//! ```text
//!  object ─► elf: `init`, `pkt`, names put in ─► check ─┬► DPDK's check, compiler (feature `dpdk`, our objects)
//!                                                       └► interpreter            (always)
//!  decision ─► init (context, cookie)                                  ─► 0, or refused
//!  packet ──► pkt  (context, cookie, descriptor, the frame's beginning) ─► Answer
//! ```
//!
//! | `pkt` gives | prepared | answer |
//! |---|---|---|
//! | 0 | straight, with priority 1 | [`Answer::Direct`] |
//! | 0 | with a priority | [`Answer::Send`] |
//! | 0 | not | [`Answer::Undecided`] |
//! | 1 | | [`Answer::Decline`] |
//! | anything else | | [`Answer::Fail`] |
//!
//! A packet whose headers cannot be read is [`Answer::Undecided`], and its program does not run.

pub mod assemble;
mod check;
mod elf;
mod frame;
pub mod insn;
mod interpret;
#[cfg(feature = "dpdk")]
mod jit;
mod names;
mod refused;
pub mod stock;

use std::sync::Arc;

pub use names::Section;
pub use refused::{Reason, Refused, Region};

use self::check::check;
use self::frame::{BUFFER, DESCRIPTOR, Descriptor, Headers, InitContext, fill};
use self::insn::Insn;
use self::interpret::{BUF_ADDR, Interpreter};
use self::names::{Prepared, VARIABLES, values};
use crate::program::{Answer, Arrival, BadParameters, Page, Program};

/// Instructions of one function, at most.
pub const MOST_INSTRUCTIONS: usize = 4_096;

/// How fast time goes: what programs have as `cycles_per_sec` and `cycles_per_ms`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Clock {
    /// Ticks in a second, whole.
    pub cycles_per_sec: u64,
    /// Ticks in a millisecond, whole.
    pub cycles_per_ms: u64,
}

/// What runs a program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Engine {
    /// Instruction by instruction.
    Interpreter,
    /// DPDK's compiler.
    Compiled,
}

/// Loads an object: by the compiler where it is one of [`stock`] and there is a compiler.
///
/// # Errors
/// When the object is none, or a program is not known to be harmless.
pub fn load(bytes: &[u8], clock: Clock) -> Result<Arc<dyn Program>, Refused> {
    Ok(Checked::new(bytes, clock)?.best().0)
}

/// An object that passed the check.
#[derive(Clone, Debug)]
pub struct Checked(Code);

impl Checked {
    /// Reads and checks an object.
    ///
    /// # Errors
    /// When the object is none, or a program is not known to be harmless.
    pub fn new(bytes: &[u8], clock: Clock) -> Result<Checked, Refused> {
        let [init, packet] = elf::read(bytes)?;
        let values = values(&clock);
        check(Section::Init, &init, &values)?;
        let reach = check(Section::Packet, &packet, &values)?.reach;
        let ours = stock::STOCK.iter().any(|stock| stock.object == bytes);
        Ok(Checked(Code { init, packet, values, reach, ours }))
    }

    /// The program by the fastest engine that is trusted with it, and which that is.
    pub fn best(&self) -> (Arc<dyn Program>, Engine) {
        match self.by(Engine::Compiled) {
            Some(compiled) => (compiled, Engine::Compiled),
            None => (Arc::new(Interpreted(self.0.clone())), Engine::Interpreter),
        }
    }

    /// Instructions of `init` and of `pkt`.
    pub fn instructions(&self) -> [usize; 2] {
        [self.0.init.len(), self.0.packet.len()]
    }

    /// A program that this engine runs; `None` where it cannot: it is not built in, or DPDK
    /// refuses the program, or it is not one of [`stock`].
    pub fn by(&self, engine: Engine) -> Option<Arc<dyn Program>> {
        match engine {
            Engine::Interpreter => Some(Arc::new(Interpreted(self.0.clone()))),
            #[cfg(feature = "dpdk")]
            Engine::Compiled => Some(Arc::new(jit::Compiled::new(&self.0)?)),
            #[cfg(not(feature = "dpdk"))]
            Engine::Compiled => None,
        }
    }

    /// The program by DPDK, whosever object it is: its compiler, or its interpreter. For the tests
    /// that compare them.
    ///
    /// # Safety
    /// Machine code of DPDK's can do what the program does not say: it has to run in a process
    /// that nobody needs.
    #[cfg(feature = "dpdk")]
    #[doc(hidden)]
    pub unsafe fn by_dpdk(&self, engine: Engine) -> Option<Arc<dyn Program>> {
        match engine {
            Engine::Interpreter => {
                // SAFETY: the caller's.
                let interpreted = unsafe { jit::Compiled::<false>::of_anyone(&self.0) };
                Some(Arc::new(interpreted?))
            }
            Engine::Compiled => {
                // SAFETY: the caller's.
                let compiled = unsafe { jit::Compiled::<true>::of_anyone(&self.0) };
                Some(Arc::new(compiled?))
            }
        }
    }

    /// Runs `init` by the interpreter: what it gives, and `None` if it did what the check
    /// should have refused. For tests of the check.
    pub fn try_init(&self, now: u64, page: &mut Page) -> Option<u64> {
        self.0.interpret_init(now, page)
    }

    /// Runs `pkt` by the interpreter, as [`Checked::try_init`]; headers that cannot be read
    /// count as fine.
    pub fn try_packet(&self, arrival: &Arrival<'_>, expires: u64, page: &mut Page) -> Option<u64> {
        let Some(headers) = Headers::parse(arrival) else { return Some(0) };
        Some(self.0.interpret_packet(&headers, arrival, expires, page)?.0)
    }
}

/// Both functions, checked.
#[derive(Clone, Debug)]
struct Code {
    init: Vec<Insn>,
    packet: Vec<Insn>,
    values: [u64; VARIABLES],
    /// How far `packet` reads in the packet's buffer.
    reach: usize,
    /// It is one of [`stock`].
    #[cfg_attr(not(feature = "dpdk"), expect(dead_code, reason = "the compiler asks"))]
    ours: bool,
}

impl Code {
    fn interpret_init(&self, now: u64, page: &mut Page) -> Option<u64> {
        let InitContext { now } = InitContext { now };
        let mut run = Interpreter {
            section: Section::Init,
            code: &self.init,
            values: &self.values,
            context: &now.to_le_bytes(),
            cookie: page,
            descriptor: &[0; DESCRIPTOR],
            buffer: &[0; BUFFER],
            prepared: Prepared::default(),
        };
        run.run().ok()
    }

    fn interpret_packet(
        &self,
        headers: &Headers,
        arrival: &Arrival<'_>,
        expires: u64,
        page: &mut Page,
    ) -> Option<(u64, Prepared)> {
        let mut buffer = [0; BUFFER];
        fill(&mut buffer, self.reach, arrival);
        let mut run = Interpreter {
            section: Section::Packet,
            code: &self.packet,
            values: &self.values,
            context: &headers.context(arrival.now, expires).bytes(),
            cookie: page,
            descriptor: &Descriptor::new(BUF_ADDR, arrival, headers).bytes(),
            buffer: &buffer,
            prepared: Prepared::default(),
        };
        Some((run.run().ok()?, run.prepared))
    }
}

/// What `pkt` gave, as an answer.
#[inline]
fn answer(given: u64, prepared: Prepared) -> Answer {
    match (given, prepared.0) {
        (FORWARD, Some((crate::program::GRANTED, true))) => Answer::Direct,
        (FORWARD, Some((priority, _))) => Answer::Send(priority),
        (FORWARD, None) => Answer::Undecided,
        (DECLINE, _) => Answer::Decline,
        _ => Answer::Fail,
    }
}

/// A program that the interpreter runs.
struct Interpreted(Code);

impl Program for Interpreted {
    fn init(&self, now: u64, page: &mut Page) -> Result<(), BadParameters> {
        match self.0.interpret_init(now, page) {
            Some(INIT_OK) => Ok(()),
            _ => Err(BadParameters),
        }
    }

    fn packet(&self, arrival: &Arrival<'_>, expires: u64, page: &mut Page) -> Answer {
        let Some(headers) = Headers::parse(arrival) else { return Answer::Undecided };
        match self.0.interpret_packet(&headers, arrival, expires, page) {
            Some((given, prepared)) => answer(given, prepared),
            None => Answer::Fail,
        }
    }
}

const INIT_OK: u64 = 0;
const FORWARD: u64 = 0;
const DECLINE: u64 = 1;

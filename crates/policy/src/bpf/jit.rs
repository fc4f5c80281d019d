//! DPDK's compiler: runs what our own check took, and what DPDK's own takes, too.
//!
//! ```text
//!  Run, on the stack   │ context │ page │ descriptor │ prepared │     the program has its address
//! ```
//!
//! Only objects of ours are compiled. DPDK 22.11 makes wrong machine code of some programs that
//! both checks take: random ones crashed, or answered otherwise than the interpreter, as with a
//! jump on common bits with an immediate of one byte. Such code can do anything. Of ours each
//! is compared with a model, as the interpreter is.
//!
//! The code is freed with the [`Compiled`] that owns it: who runs it holds that.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;

use super::frame::{BUFFER, Descriptor, Headers, InitContext, PacketContext, fill};
use super::insn::{Insn, LD_IMM64, VARIABLE};
use super::names::{Prepared, VARIABLES};
use super::{Code, INIT_OK, answer};
use crate::program::{Answer, Arrival, BadParameters, Page, Program};

/// A program that was compiled. With false DPDK's interpreter runs it, for tests that compare.
pub(super) struct Compiled<const COMPILED: bool = true> {
    init: Function,
    packet: Function,
    reach: usize,
    /// What the code reads by address. Never written again.
    _values: Box<[u64; VARIABLES]>,
}

impl Compiled {
    /// `None` where the object is not ours, DPDK refuses it, or it has no compiler for this processor.
    pub(super) fn new(code: &Code) -> Option<Compiled> {
        // SAFETY: each of ours is compared with a model.
        code.ours.then(|| unsafe { Compiled::of_anyone(code) })?
    }
}

impl<const COMPILED: bool> Compiled<COMPILED> {
    /// As [`Compiled::new`], whosever object it is.
    ///
    /// # Safety
    /// What DPDK makes of it does what the program says, or runs in a process that nobody needs.
    pub(super) unsafe fn of_anyone(code: &Code) -> Option<Self> {
        let mut values = Box::new(code.values);
        let init = Function::new(&code.init, false, &mut values)?;
        let packet = Function::new(&code.packet, true, &mut values)?;
        Some(Compiled { init, packet, reach: code.reach, _values: values })
    }
}

impl<const COMPILED: bool> Program for Compiled<COMPILED> {
    fn init(&self, now: u64, page: &mut Page) -> Result<(), BadParameters> {
        let mut run = InitRun { context: InitContext { now }, page };
        // SAFETY: `init` was compiled for a context that begins an `InitRun`.
        match unsafe { self.init.run::<COMPILED>(ptr::from_mut(&mut run).cast()) } {
            INIT_OK => Ok(()),
            _ => Err(BadParameters),
        }
    }

    #[inline]
    fn packet(&self, arrival: &Arrival<'_>, expires: u64, page: &mut Page) -> Answer {
        let Some(headers) = Headers::parse(arrival) else { return Answer::Undecided };
        let mut buffer = MaybeUninit::<[u8; BUFFER]>::uninit();
        if self.reach > 0 {
            fill(buffer.write([0; BUFFER]), self.reach, arrival);
        }
        let mut run = PacketRun {
            context: headers.context(arrival.now, expires),
            page,
            descriptor: Descriptor::new(
                buffer.as_ptr().expose_provenance() as u64,
                arrival,
                &headers,
            ),
            prepared: Prepared::default(),
        };
        // SAFETY: `pkt` was compiled for a context that begins a `PacketRun`. The check saw that
        // it reads the buffer below `reach` only, and nothing of it where that is 0.
        let given = unsafe { self.packet.run::<COMPILED>(ptr::from_mut(&mut run).cast()) };
        answer(given, run.prepared)
    }
}

/// What `init` is called with. The context comes first: its address is the run's.
#[repr(C)]
struct InitRun<'p> {
    context: InitContext,
    page: &'p mut Page,
}

/// What `pkt` is called with, as [`InitRun`].
#[repr(C)]
struct PacketRun<'p> {
    context: PacketContext,
    page: &'p mut Page,
    descriptor: Descriptor,
    prepared: Prepared,
}

/// One compiled function.
struct Function(Made);

// SAFETY: the code and DPDK's handle of it are not changed before they are freed, which takes
// the function itself; the code writes to what it is called with alone.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Function {
    fn new(code: &[Insn], packet: bool, values: &mut [u64; VARIABLES]) -> Option<Function> {
        let cookie = if packet { aligned::packet_cookie } else { aligned::init_cookie };
        Function::with(cookie, code, packet, values)
    }

    /// With this helper for the cookie.
    fn with(
        cookie: Helper,
        code: &[Insn],
        packet: bool,
        values: &mut [u64; VARIABLES],
    ) -> Option<Function> {
        let variables = values.each_mut().map(ptr::from_mut);
        let mut words = Vec::with_capacity(code.len());
        let mut high = None;
        for insn in code {
            let mut insn = *insn;
            if let Some(high) = high.take() {
                insn.imm = high;
            } else if insn.code == LD_IMM64 && insn.src == VARIABLE {
                // cannot panic: the check saw that it is the number of a variable.
                let address = variables[insn.imm as usize].expose_provenance() as u64;
                (insn.src, insn.imm) = (0, address as u32 as i32);
                high = Some((address >> 32) as i32);
            }
            words.push(u64::from_ne_bytes(insn.emit()));
        }
        let parts = Parts {
            instructions: words.as_ptr(),
            count: u32::try_from(words.len()).ok()?,
            packet: packet.into(),
            buffer: BUFFER as u32,
            cookie,
            descriptor: aligned::descriptor,
            prepare: aligned::prepare,
            variables,
        };
        let mut made = MaybeUninit::uninit();
        // SAFETY: `parts` is what the C side takes, all of it lives until the call is over, and
        // the variables lie in a box that the program keeps. DPDK copies the rest.
        let rc = unsafe { rutter_bpf_load(&parts, made.as_mut_ptr()) };
        // SAFETY: with 0 it was written.
        (rc == 0).then(|| Function(unsafe { made.assume_init() }))
    }

    /// # Safety
    /// `context` begins what the function was compiled for.
    #[inline]
    unsafe fn run<const COMPILED: bool>(&self, context: *mut ()) -> u64 {
        if COMPILED {
            // SAFETY: the caller's; the code lives as long as the function.
            unsafe { (self.0.run)(context) }
        } else {
            // SAFETY: as above.
            unsafe { rutter_bpf_interpret(&self.0, context) }
        }
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        // SAFETY: it was made by `rutter_bpf_load` and is not used again. Whoever runs the code
        // borrows the function.
        unsafe { rutter_bpf_destroy(&mut self.0) }
    }
}

/// `init_ctx_to_cookie`.
unsafe extern "C" fn init_cookie(context: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    let run = ptr::with_exposed_provenance_mut::<InitRun<'_>>(context as usize);
    // SAFETY: the check saw that the argument is the context, which begins the run.
    let page: *mut Page = unsafe { &raw mut *(*run).page };
    page.expose_provenance() as u64
}

/// `pkt_ctx_to_cookie`.
unsafe extern "C" fn packet_cookie(context: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    // SAFETY: the check saw that the argument is the context, which begins the run.
    let page: *mut Page = unsafe { &raw mut *(*packet_run(context)).page };
    page.expose_provenance() as u64
}

/// `pkt_ctx_to_pkt`.
unsafe extern "C" fn descriptor(context: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    // SAFETY: the check saw that the argument is the context, which begins the run.
    let descriptor = unsafe { &raw const (*packet_run(context)).descriptor };
    descriptor.expose_provenance() as u64
}

/// `gk_bpf_prep_for_tx`.
unsafe extern "C" fn prepare(context: u64, priority: u64, direct: u64, _: u64, _: u64) -> u64 {
    // SAFETY: the check saw that the argument is the context, which begins the run.
    let prepared = unsafe { &mut (*packet_run(context)).prepared };
    prepared.prepare(priority, direct)
}

fn packet_run<'p>(context: u64) -> *mut PacketRun<'p> {
    ptr::with_exposed_provenance_mut(context as usize)
}

/// The helpers as compiled code calls them: DPDK keeps the stack at a multiple of 8 bytes, and
/// functions may count on 16.
#[cfg(target_arch = "x86_64")]
mod aligned {
    use std::arch::naked_asm;

    macro_rules! aligned {
        ($($name:ident)*) => {$(
            #[unsafe(naked)]
            pub(super) unsafe extern "C" fn $name(_: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
                naked_asm!(
                    "push rbp",
                    "mov rbp, rsp",
                    "and rsp, -16",
                    "call {}",
                    "mov rsp, rbp",
                    "pop rbp",
                    "ret",
                    sym super::$name
                )
            }
        )*};
    }
    aligned!(init_cookie packet_cookie descriptor prepare);
    #[cfg(test)]
    aligned!(stack);
}

/// Other processors' code keeps to what they want.
#[cfg(not(target_arch = "x86_64"))]
mod aligned {
    pub(super) use super::{descriptor, init_cookie, packet_cookie, prepare};
}

/// The stack's place where a helper begins.
#[cfg(all(test, target_arch = "x86_64"))]
#[unsafe(naked)]
unsafe extern "C" fn stack(_: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    std::arch::naked_asm!("mov rax, rsp", "ret")
}

type Helper = unsafe extern "C" fn(u64, u64, u64, u64, u64) -> u64;

/// `struct rutter_bpf_parts` of the shim.
#[repr(C)]
struct Parts {
    instructions: *const u64,
    count: u32,
    packet: u32,
    buffer: u32,
    cookie: Helper,
    descriptor: Helper,
    prepare: Helper,
    variables: [*mut u64; VARIABLES],
}

/// `struct rutter_bpf_made` of the shim.
#[repr(C)]
struct Made {
    bpf: *mut (),
    run: unsafe extern "C" fn(*mut ()) -> u64,
}

unsafe extern "C" {
    fn rutter_bpf_load(parts: *const Parts, made: *mut Made) -> c_int;
    fn rutter_bpf_interpret(made: *const Made, context: *mut ()) -> u64;
    fn rutter_bpf_destroy(made: *mut Made);
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::bpf::insn::{ALU64, CALL, EXIT, JMP, MOV, ST, STACK, X};

    /// Whatever a program keeps over a call, and on its stack.
    #[test]
    fn helpers_have_the_stack_that_functions_count_on() {
        let insn = |code, dst, src, off, imm| Insn { code, dst, src, off, imm };
        let mut places = [0; 2];
        for (kept, stack_bytes) in (0..5).flat_map(|n| [0, 8, 16, STACK as i16].map(|s| (n, s))) {
            let mut code: Vec<_> =
                (0..kept).map(|n| insn(ALU64 | MOV | X, 6 + n, 1, 0, 0)).collect();
            if stack_bytes > 0 {
                code.push(insn(ST | 0x60 | 0x18, 10, 0, -stack_bytes, 1));
            }
            code.extend([insn(JMP | CALL, 0, 0, 0, 0), insn(JMP | EXIT, 0, 0, 0, 0)]);
            for (helper, place) in [stack as Helper, aligned::stack].into_iter().zip(&mut places) {
                let function = Function::with(helper, &code, false, &mut [0; VARIABLES]);
                let Some(function) = function else { continue };
                let mut context = 0_u64;
                // SAFETY: the program does nothing but ask where the stack is.
                let at = unsafe { function.run::<true>(ptr::from_mut(&mut context).cast()) };
                *place += u32::from(at % 16 != 8);
            }
        }
        assert_eq!(places[1], 0);
        if places[0] == 0 {
            testing::skip("this DPDK keeps to 16 bytes by itself");
        }
    }
}

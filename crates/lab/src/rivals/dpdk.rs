//! DPDK: `rte_fib` (DIR-24-8, entries of 2 or 4 bytes, plain and AVX-512),
//! `rte_fib6` (trie), `rte_lpm` and `rte_lpm6`, called in bulk as their documentation
//! asks. Of the fibs a name without `-avx512` is the scalar lookup: DPDK has none
//! for AVX2.
//!
//! Their tables lie in memory that the lab gives to DPDK, on the same kind of
//! pages as our own. Addresses are in host byte order for IPv4, in network byte
//! order for IPv6; hops come back as 64-bit numbers from the fibs.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use lookup::rib::Change;
use lookup::{Addr, Hop, Prefix, Rib};

use crate::contest::{self, Contestant, LARGEST_BURST, READER_BURST, Stream, Subject};

/// DPDK's tables for IPv4.
pub(super) fn ipv4() -> Vec<Contestant<u32>> {
    let fib = |name: &'static str, width_log2, kind| {
        Contestant::rival(name, move |rib| {
            Dpdk::build(name, rib, |room| Fib4::new(room, width_log2, kind))
        })
    };
    let lpm = Contestant::rival("rte_lpm", |rib| Dpdk::build("rte_lpm", rib, Lpm4::new));
    vec![
        fib("rte_fib-2b", WIDTH_2B, FIB_SCALAR),
        fib("rte_fib-2b-avx512", WIDTH_2B, FIB_AVX512),
        fib("rte_fib-4b", WIDTH_4B, FIB_SCALAR),
        fib("rte_fib-4b-avx512", WIDTH_4B, FIB_AVX512),
        lpm.slow(),
    ]
}

/// DPDK's tables for IPv6.
pub(super) fn ipv6() -> Vec<Contestant<u128>> {
    let fib = |name: &'static str, kind| {
        Contestant::rival(name, move |rib| Dpdk::build(name, rib, |room| Fib6::new(room, kind)))
    };
    let lpm = Contestant::rival("rte_lpm6", |rib| Dpdk::build("rte_lpm6", rib, Lpm6::new));
    vec![fib("rte_fib6", FIB6_SCALAR), fib("rte_fib6-avx512", FIB6_AVX512), lpm]
}

/// One of DPDK's tables: how it is called.
trait Table<A: Addr>: Sync {
    /// A destination as it wants it.
    type Key: Copy + Send;
    /// A hop as it returns it.
    type Answer: Copy + Default + Send;

    fn key(dst: A) -> Self::Key;
    fn hop(answer: Self::Answer) -> Hop;
    /// Both slices have one length.
    fn bulk(&self, keys: &[Self::Key], answers: &mut [Self::Answer]);
    /// False when there is no room.
    fn add(&self, prefix: &Prefix<A>, hop: Hop) -> bool;
    fn delete(&self, prefix: &Prefix<A>) -> bool;
    /// Bytes of the first level and of the groups that are in use, as the
    /// layout has them; DPDK does not report them.
    fn bytes(&self) -> Option<usize>;
}

/// Room that a table asks for when it is made: DPDK's tables do not grow.
#[derive(Clone)]
struct Room {
    name: CString,
    socket: c_int,
    routes: u32,
    groups: u32,
}

struct Dpdk<T> {
    table: std::sync::Arc<T>,
}

impl<T> Dpdk<T> {
    fn build<A: Addr>(
        name: &'static str,
        rib: &Rib<A>,
        new: impl FnOnce(Room) -> Option<T>,
    ) -> Result<Self, String>
    where
        T: Table<A>,
    {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let room = Room {
            name: CString::new(format!("lab{number}")).expect("no zero byte"),
            socket: start()?,
            routes: (rib.len() as u32 * 5 / 4).max(1 << 16),
            groups: groups(rib),
        };
        let table =
            new(room).ok_or(format!("{name} refuses: no memory, or not on this processor"))?;
        for (prefix, hop) in rib.iter() {
            if !table.add(&prefix, hop) {
                return Err(format!("{name} refuses: {prefix}, hop {}", hop.0));
            }
        }
        Ok(Dpdk { table: table.into() })
    }
}

impl<A: Addr, T: Table<A> + Send + Sync + 'static> Subject<A> for Dpdk<T> {
    fn stream<'s>(&'s self, dsts: &[A]) -> Box<dyn Stream + 's> {
        let keys = dsts.iter().map(|dst| T::key(*dst)).collect();
        let answers = vec![T::Answer::default(); LARGEST_BURST];
        Box::new(DpdkStream { table: &*self.table, keys, answers })
    }

    fn lookup(&self, dst: A) -> Hop {
        let mut answer = [T::Answer::default()];
        self.table.bulk(&[T::key(dst)], &mut answer);
        T::hop(answer[0])
    }

    fn bytes(&self) -> Option<usize> {
        self.table.bytes()
    }

    fn update(&mut self, rib: &mut Rib<A>, change: &Change<A>) -> Result<bool, String> {
        // The Rib of the caller is not needed: these tables keep one of their own.
        let done = match change.hop {
            Some(hop) => self.table.add(&change.prefix, hop),
            None => self.table.delete(&change.prefix),
        };
        let _ = rib;
        if done { Ok(true) } else { Err(format!("{} was refused", change.prefix)) }
    }

    fn bursts(&self, dsts: &[A]) -> Option<Box<dyn FnMut() + Send>> {
        let keys: Vec<T::Key> = dsts.iter().map(|dst| T::key(*dst)).collect();
        let (table, mut answers) = (self.table.clone(), vec![T::Answer::default(); READER_BURST]);
        Some(contest::round(keys, move |keys| {
            table.bulk(keys, &mut answers[..keys.len()]);
            std::hint::black_box(&mut answers);
        }))
    }
}

struct DpdkStream<'s, A: Addr, T: Table<A>> {
    table: &'s T,
    keys: Vec<T::Key>,
    answers: Vec<T::Answer>,
}

impl<A: Addr, T: Table<A>> Stream for DpdkStream<'_, A, T> {
    fn run(&mut self, from: usize, n: usize, burst: usize) {
        for keys in self.keys[from..from + n].chunks(burst) {
            self.table.bulk(keys, &mut self.answers[..keys.len()]);
            std::hint::black_box(&mut self.answers);
        }
    }

    fn answers(&mut self) -> Vec<Hop> {
        let mut hops = Vec::with_capacity(self.keys.len());
        for keys in self.keys.chunks(LARGEST_BURST) {
            let answers = &mut self.answers[..keys.len()];
            self.table.bulk(keys, answers);
            hops.extend(answers.iter().map(|answer| T::hop(*answer)));
        }
        hops
    }
}

/// A table of DPDK's: the pointer is valid until it is dropped.
struct Handle(*mut c_void, unsafe extern "C" fn(*mut c_void));

// SAFETY: DPDK's tables may be used from any thread; lookups and one writer may
// run side by side (rte_fib and rte_lpm programmer's guides).
unsafe impl Send for Handle {}
// SAFETY: as for `Send`; the lab has one writer only, which holds `&mut Dpdk`.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the pointer came from the matching constructor and is used no more.
        unsafe { (self.1)(self.0) }
    }
}

struct Fib4 {
    fib: Handle,
    entry_bytes: usize,
    groups: u32,
}

impl Fib4 {
    fn new(room: Room, width_log2: c_int, kind: c_int) -> Option<Fib4> {
        // SAFETY: DPDK runs (`Room` has its socket); the name outlives the call, which copies it.
        let fib = unsafe {
            lab_fib_new(room.name.as_ptr(), room.socket, room.routes, width_log2, room.groups, kind)
        };
        let entry_bytes = 1 << width_log2;
        (!fib.is_null()).then(|| Fib4 {
            fib: Handle(fib, rte_fib_free),
            entry_bytes,
            groups: room.groups,
        })
    }
}

impl Table<u32> for Fib4 {
    type Key = u32;
    type Answer = u64;

    fn key(dst: u32) -> u32 {
        dst
    }

    fn hop(answer: u64) -> Hop {
        Hop(answer as u32)
    }

    fn bulk(&self, keys: &[u32], answers: &mut [u64]) {
        let n = keys.len().min(answers.len()) as c_int;
        // SAFETY: the table lives; both arrays hold `n` entries.
        unsafe { rte_fib_lookup_bulk(self.fib.0, keys.as_ptr(), answers.as_mut_ptr(), n) };
    }

    fn add(&self, prefix: &Prefix<u32>, hop: Hop) -> bool {
        // SAFETY: the table lives.
        unsafe { rte_fib_add(self.fib.0, prefix.first(), prefix.len(), u64::from(hop.0)) == 0 }
    }

    fn delete(&self, prefix: &Prefix<u32>) -> bool {
        // SAFETY: the table lives.
        unsafe { rte_fib_delete(self.fib.0, prefix.first(), prefix.len()) == 0 }
    }

    fn bytes(&self) -> Option<usize> {
        Some(((1 << 24) + self.groups as usize * 256) * self.entry_bytes)
    }
}

struct Fib6(Handle);

impl Fib6 {
    fn new(room: Room, kind: c_int) -> Option<Fib6> {
        // SAFETY: as in `Fib4::new`.
        let fib = unsafe {
            lab_fib6_new(room.name.as_ptr(), room.socket, room.routes, room.groups, kind)
        };
        (!fib.is_null()).then(|| Fib6(Handle(fib, rte_fib6_free)))
    }
}

impl Table<u128> for Fib6 {
    type Key = [u8; 16];
    type Answer = u64;

    fn key(dst: u128) -> [u8; 16] {
        dst.to_be_bytes()
    }

    fn hop(answer: u64) -> Hop {
        Hop(answer as u32)
    }

    fn bulk(&self, keys: &[[u8; 16]], answers: &mut [u64]) {
        let n = keys.len().min(answers.len()) as c_int;
        // SAFETY: the table lives; both arrays hold `n` entries.
        unsafe { rte_fib6_lookup_bulk(self.0.0, keys.as_ptr(), answers.as_mut_ptr(), n) };
    }

    fn add(&self, prefix: &Prefix<u128>, hop: Hop) -> bool {
        let key = prefix.first().to_be_bytes();
        // SAFETY: the table lives; the key is 16 bytes.
        unsafe { rte_fib6_add(self.0.0, key.as_ptr(), prefix.len(), u64::from(hop.0)) == 0 }
    }

    fn delete(&self, prefix: &Prefix<u128>) -> bool {
        let key = prefix.first().to_be_bytes();
        // SAFETY: the table lives; the key is 16 bytes.
        unsafe { rte_fib6_delete(self.0.0, key.as_ptr(), prefix.len()) == 0 }
    }

    fn bytes(&self) -> Option<usize> {
        None // what is used of its groups is not reported, and what is reserved says nothing
    }
}

struct Lpm4 {
    lpm: Handle,
    groups: u32,
}

impl Lpm4 {
    fn new(room: Room) -> Option<Lpm4> {
        // SAFETY: as in `Fib4::new`.
        let lpm = unsafe { lab_lpm_new(room.name.as_ptr(), room.socket, room.routes, room.groups) };
        (!lpm.is_null()).then(|| Lpm4 { lpm: Handle(lpm, rte_lpm_free), groups: room.groups })
    }
}

impl Table<u32> for Lpm4 {
    type Key = u32;
    type Answer = u32;

    fn key(dst: u32) -> u32 {
        dst
    }

    fn hop(answer: u32) -> Hop {
        if answer & LPM_VALID == 0 { Hop::NONE } else { Hop(answer & (LPM_VALID - 1)) }
    }

    fn bulk(&self, keys: &[u32], answers: &mut [u32]) {
        let n = keys.len().min(answers.len()) as c_uint;
        // SAFETY: the table lives; both arrays hold `n` entries.
        unsafe { lab_lpm_bulk(self.lpm.0, keys.as_ptr(), answers.as_mut_ptr(), n) };
    }

    fn add(&self, prefix: &Prefix<u32>, hop: Hop) -> bool {
        // It has no /0: the caller's tables seldom have one.
        // SAFETY: the table lives.
        prefix.len() > 0
            && unsafe { rte_lpm_add(self.lpm.0, prefix.first(), prefix.len(), hop.0) == 0 }
    }

    fn delete(&self, prefix: &Prefix<u32>) -> bool {
        // SAFETY: the table lives.
        unsafe { rte_lpm_delete(self.lpm.0, prefix.first(), prefix.len()) == 0 }
    }

    fn bytes(&self) -> Option<usize> {
        Some(((1 << 24) + self.groups as usize * 256) * 4)
    }
}

struct Lpm6(Handle);

impl Lpm6 {
    fn new(room: Room) -> Option<Lpm6> {
        // SAFETY: as in `Fib4::new`.
        let lpm =
            unsafe { lab_lpm6_new(room.name.as_ptr(), room.socket, room.routes, room.groups) };
        (!lpm.is_null()).then(|| Lpm6(Handle(lpm, rte_lpm6_free)))
    }
}

impl Table<u128> for Lpm6 {
    type Key = [u8; 16];
    type Answer = i32;

    fn key(dst: u128) -> [u8; 16] {
        dst.to_be_bytes()
    }

    fn hop(answer: i32) -> Hop {
        u32::try_from(answer).map_or(Hop::NONE, Hop)
    }

    fn bulk(&self, keys: &[[u8; 16]], answers: &mut [i32]) {
        let n = keys.len().min(answers.len()) as c_uint;
        // SAFETY: the table lives; both arrays hold `n` entries; the keys are only read.
        unsafe { rte_lpm6_lookup_bulk_func(self.0.0, keys.as_ptr(), answers.as_mut_ptr(), n) };
    }

    fn add(&self, prefix: &Prefix<u128>, hop: Hop) -> bool {
        let key = prefix.first().to_be_bytes();
        // It has no /0, as `rte_lpm`.
        // SAFETY: the table lives; the key is 16 bytes.
        prefix.len() > 0
            && unsafe { rte_lpm6_add(self.0.0, key.as_ptr(), prefix.len(), hop.0) == 0 }
    }

    fn delete(&self, prefix: &Prefix<u128>) -> bool {
        let key = prefix.first().to_be_bytes();
        // SAFETY: the table lives; the key is 16 bytes.
        unsafe { rte_lpm6_delete(self.0.0, key.as_ptr(), prefix.len()) == 0 }
    }

    fn bytes(&self) -> Option<usize> {
        None // as for `Fib6`
    }
}

/// Second-level groups that a table needs at most, and some to spare: one for
/// each 8-bit step below the first 24 bits that a prefix is the first to take.
fn groups<A: Addr>(rib: &Rib<A>) -> u32 {
    let mut last: Option<A> = None;
    let steps = rib.iter().filter(|(prefix, _)| prefix.len() > 24).map(|(prefix, _)| {
        let shared = last.map_or(0, |last| last.common(prefix.first())).max(24);
        last = Some(prefix.first());
        let (deep, shared) = ((prefix.len() - 1) / 8, shared / 8);
        u32::from(deep.saturating_sub(shared)) + 1
    });
    (steps.sum::<u32>() * 5 / 4 + 1024).min(if A::WIDTH == 32 { (1 << 15) - 1 } else { 1 << 20 })
}

/// Starts DPDK, as the ports of other experiments do: a process can but once. The
/// number of the lab's memory in it.
pub(super) fn start() -> Result<c_int, String> {
    static SOCKET: OnceLock<c_int> = OnceLock::new();
    io_dpdk::init(&io_dpdk::Config::default()).map_err(|error| error.to_string())?;
    // SAFETY: called once, after the start.
    let socket = *SOCKET.get_or_init(|| unsafe { lab_dpdk_memory(MEMORY) });
    if socket < 0 { Err(format!("DPDK takes no memory: error {}", -socket)) } else { Ok(socket) }
}

unsafe extern "C" {
    fn lab_dpdk_memory(bytes: usize) -> c_int;
    fn lab_fib_new(
        name: *const c_char,
        socket: c_int,
        routes: u32,
        width_log2: c_int,
        groups: u32,
        kind: c_int,
    ) -> *mut c_void;
    fn lab_fib6_new(
        name: *const c_char,
        socket: c_int,
        routes: u32,
        groups: u32,
        kind: c_int,
    ) -> *mut c_void;
    fn lab_lpm_new(name: *const c_char, socket: c_int, routes: u32, groups: u32) -> *mut c_void;
    fn lab_lpm6_new(name: *const c_char, socket: c_int, routes: u32, groups: u32) -> *mut c_void;
    fn lab_lpm_bulk(lpm: *mut c_void, ips: *const u32, hops: *mut u32, n: c_uint);
    fn rte_fib_add(fib: *mut c_void, ip: u32, depth: u8, hop: u64) -> c_int;
    fn rte_fib_delete(fib: *mut c_void, ip: u32, depth: u8) -> c_int;
    fn rte_fib_lookup_bulk(fib: *mut c_void, ips: *const u32, hops: *mut u64, n: c_int) -> c_int;
    fn rte_fib_free(fib: *mut c_void);
    fn rte_fib6_add(fib: *mut c_void, ip: *const u8, depth: u8, hop: u64) -> c_int;
    fn rte_fib6_delete(fib: *mut c_void, ip: *const u8, depth: u8) -> c_int;
    fn rte_fib6_lookup_bulk(
        fib: *mut c_void,
        ips: *const [u8; 16],
        hops: *mut u64,
        n: c_int,
    ) -> c_int;
    fn rte_fib6_free(fib: *mut c_void);
    fn rte_lpm_add(lpm: *mut c_void, ip: u32, depth: u8, hop: u32) -> c_int;
    fn rte_lpm_delete(lpm: *mut c_void, ip: u32, depth: u8) -> c_int;
    fn rte_lpm_free(lpm: *mut c_void);
    fn rte_lpm6_add(lpm: *mut c_void, ip: *const u8, depth: u8, hop: u32) -> c_int;
    fn rte_lpm6_delete(lpm: *mut c_void, ip: *const u8, depth: u8) -> c_int;
    fn rte_lpm6_lookup_bulk_func(
        lpm: *const c_void,
        ips: *const [u8; 16],
        hops: *mut i32,
        n: c_uint,
    ) -> c_int;
    fn rte_lpm6_free(lpm: *mut c_void);
}

/// Address space for DPDK's tables; only what is written takes memory.
const MEMORY: usize = 6 << 30;
/// `RTE_LPM_LOOKUP_SUCCESS`.
const LPM_VALID: u32 = 1 << 24;
/// `rte_fib_dir24_8_nh_sz`.
const WIDTH_2B: c_int = 1;
const WIDTH_4B: c_int = 2;
/// `rte_fib_lookup_type`, `rte_fib6_lookup_type`.
const FIB_SCALAR: c_int = 1;
const FIB_AVX512: c_int = 4;
const FIB6_SCALAR: c_int = 1;
const FIB6_AVX512: c_int = 2;

//! Fan-outs: the choice of an interface's socket for each packet.
//!
//! By flow, the kernel itself hashes. By pair, it runs a program of ours: Toeplitz over both
//! addresses, in classic BPF, which needs no rights beyond those for packet sockets (eBPF would).
//!
//! ```text
//!  at the header of layer 3, or, after the tag that the kernel takes off, a second tag
//!  bit j of the hash = parity of (addresses & key from bit 31 - j on)
//!  bucket = the lowest bits; queue = bucket % queues
//! ```
//!
//! For a power of two of queues the program computes only the bits that it needs, otherwise
//! all bits of the bucket: a bit takes 29 instructions for IPv4, 53 for IPv6, without jumps.

use std::io;

use libc::sock_filter;

use super::socket::Socket;
use crate::ByPair;

/// A fan-out: its unique number, and its kind.
#[derive(Clone, Copy)]
pub(super) struct Group {
    number: u16,
    kind: u32,
}

impl Group {
    /// Creates a fan-out by flow, with `first` in it.
    pub(super) fn by_flow(first: &Socket) -> io::Result<Group> {
        Group::new(first, libc::PACKET_FANOUT_HASH)
    }

    /// Creates a fan-out by pair over `queues` sockets, with `first` in it. False where the kernel
    /// refuses the program: `first` then gets all packets.
    pub(super) fn by_pair(first: &Socket, by: &ByPair, queues: u16) -> io::Result<(Group, bool)> {
        let program = program(by, queues);
        let group = Group::new(first, libc::PACKET_FANOUT_CBPF)?;
        Ok((group, first.set_program(&program).is_ok()))
    }

    fn new(first: &Socket, kind: u32) -> io::Result<Group> {
        let kinds = kind | libc::PACKET_FANOUT_FLAG_UNIQUEID;
        let quiet = kinds | libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING; // since 5.11
        let made = first.set(libc::PACKET_FANOUT, (quiet << 16) as i32);
        made.or_else(|_| first.set(libc::PACKET_FANOUT, (kinds << 16) as i32))?;
        Ok(Group { number: first.fanout()?, kind })
    }

    /// Adds a socket, behind the others.
    pub(super) fn join(self, socket: &Socket) -> io::Result<()> {
        let (number, kind) = (u32::from(self.number), self.kind);
        let quiet = kind | libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
        let joined = socket.set(libc::PACKET_FANOUT, (quiet << 16 | number) as i32);
        joined.or_else(|_| socket.set(libc::PACKET_FANOUT, (kind << 16 | number) as i32))
    }
}

/// The program for this many queues. Packets that are not IP go to the first one.
fn program(by: &ByPair, queues: u16) -> Vec<sock_filter> {
    let (words4, words6) = (12_u32..20, 8_u32..40);
    let four = queue_of(by, words4.step_by(4).collect(), queues);
    let six = queue_of(by, words6.step_by(4).collect(), queues);
    let mut all = vec![
        op(LD | ABS, (libc::SKF_AD_OFF + libc::SKF_AD_PROTOCOL) as u32),
        op(libc::BPF_LDX, 0),
        jump_eq(IPV4, 10),
        jump_eq(IPV6, 8),
        jump_eq(VLAN, 2),
        jump_eq(QINQ, 1),
        op(libc::BPF_RET, 0),
        // The second tag: what comes behind it, 4 bytes further on.
        op(libc::BPF_LD | libc::BPF_H | ABS, 2),
        op(libc::BPF_LDX, 4),
        jump_eq(IPV4, 3),
        jump_eq(IPV6, 1),
        op(libc::BPF_RET, 0),
        op(libc::BPF_JMP | libc::BPF_JA, four.len() as u32),
    ];
    all.extend(four);
    all.extend(six);
    all
}

/// The queue of the addresses whose words are at offsets `at` from the header, which is in X.
fn queue_of(by: &ByPair, at: Vec<u32>, queues: u16) -> Vec<sock_filter> {
    let queues = u32::from(queues.max(1));
    let bits = if queues.is_power_of_two() { queues.ilog2().min(by.bits) } else { by.bits };
    let mut all = Vec::new();
    for (word, at) in (0..).zip(&at) {
        all.push(op(LD | libc::BPF_IND, *at));
        all.push(op(libc::BPF_ST, word));
    }
    let sum = at.len() as u32; // its place, behind the words
    all.extend([op(LD, 0), op(libc::BPF_ST, sum)]);
    for bit in 0..bits.min(31) {
        all.extend([op(LD, 0), op(TAX, 0)]);
        for word in 0..sum {
            let mask = window(&by.key, 32 * word + 31 - bit);
            all.extend([op(LD | MEM, word), op(ALU | libc::BPF_AND, mask), XOR_X, op(TAX, 0)]);
        }
        for half in [16, 8, 4] {
            all.extend([op(ALU | libc::BPF_RSH, half), XOR_X, op(TAX, 0)]);
        }
        // The parities of 0 to 15, one of which is asked for.
        all.extend([op(ALU | libc::BPF_AND, 15), op(TAX, 0), op(LD, PARITIES)]);
        all.extend([op(ALU | libc::BPF_RSH | libc::BPF_X, 0), op(ALU | libc::BPF_AND, 1)]);
        all.extend([op(ALU | libc::BPF_LSH, bit), op(TAX, 0), op(LD | MEM, sum)]);
        all.extend([op(ALU | libc::BPF_OR | libc::BPF_X, 0), op(libc::BPF_ST, sum)]);
    }
    all.extend([op(LD | MEM, sum), op(ALU | libc::BPF_MOD, queues), op(RET_A, 0)]);
    all
}

/// The 32 bits of the key from bit `at` on.
fn window(key: &[u8; 40], at: u32) -> u32 {
    let bit = |i: u32| key.get(i as usize / 8).map_or(0, |byte| byte >> (7 - i % 8) & 1);
    (at..at + 32).fold(0, |word, i| word << 1 | u32::from(bit(i)))
}

fn op(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// Skips `over` instructions if A is `k`.
fn jump_eq(k: u32, over: u8) -> sock_filter {
    sock_filter { code: (libc::BPF_JMP | libc::BPF_JEQ) as u16, jt: over, jf: 0, k }
}

// Names of BPF: A and X are its registers, k is the constant in an instruction.
const LD: u32 = libc::BPF_LD;
const ABS: u32 = libc::BPF_ABS;
const MEM: u32 = libc::BPF_MEM;
const ALU: u32 = libc::BPF_ALU;
const TAX: u32 = libc::BPF_MISC | libc::BPF_TAX;
const RET_A: u32 = libc::BPF_RET | libc::BPF_A;
const XOR_X: sock_filter =
    sock_filter { code: (ALU | libc::BPF_XOR | libc::BPF_X) as u16, jt: 0, jf: 0, k: 0 };
/// Bit n is the parity of n.
const PARITIES: u32 = 0x6996;

const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86dd;
const VLAN: u32 = 0x8100;
const QINQ: u32 = 0x88a8;

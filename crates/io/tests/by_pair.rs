//! `packet:IFACE` fans out by pair: a pair meets one queue, that which anybody can compute.
#![cfg(not(miri))] // system calls

mod veth;

use io::{ByPair, Spread};
use veth::{ip, link_becomes, open, receive, send, start, with_veth};

/// The queue of a pair, by the definition: the addresses' bits, one after the other.
fn queue_of(by: &ByPair, addresses: &[u8], queues: u16) -> u16 {
    let bit = |bytes: &[u8], i: usize| u32::from(bytes[i / 8] >> (7 - i % 8) & 1);
    let from = |at: usize| (at..at + 32).fold(0, |word, i| word << 1 | bit(&by.key, i));
    let set = (0..8 * addresses.len()).filter(|i| bit(addresses, *i) == 1);
    ByPair::queue(by.bucket(set.fold(0, |hash, i| hash ^ from(i))), queues)
}

/// Ports, protocols and fragments vary, behind none, one and two tags.
fn of_pairs(pairs: u8) -> Vec<(Vec<u8>, Vec<u8>)> {
    let tags: [&[u8]; 4] = [
        &[],
        &[0x81, 0, 0, 5],
        &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 5],
        &[0x81, 0, 0, 7, 0x81, 0, 0, 5],
    ];
    let mut all = vec![];
    for (pair, tag, variant) in
        (0..pairs).flat_map(|p| tags.iter().flat_map(move |t| (0..4_u8).map(move |v| (p, t, v))))
    {
        let mut head = vec![2; 12];
        head.extend(*tag);
        let four = [10, 1, pair, 3 * pair, 192, 0, 2, pair / 2];
        let fragment = if variant == 3 { 13 } else { 0 };
        let mut frame = head.clone();
        frame.extend([
            8,
            0,
            0x45,
            0,
            0,
            40,
            0,
            0,
            0,
            fragment,
            64,
            [17, 6, 50, 17][variant as usize],
        ]);
        frame.extend([0, 0]);
        frame.extend(four);
        frame.extend([
            variant,
            7 * variant,
            pair,
            9,
            1,
            1,
            1,
            1,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
        ]);
        all.push((frame, four.to_vec()));
        let mut six = [0x20, 1, 0xd, 0xb8, pair, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1].to_vec();
        six.extend([0x20, 1, 0xd, 0xb8, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, pair]);
        let mut frame = head;
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, [17, 6, 0, 44][variant as usize], 64]);
        frame.extend(&six);
        frame.extend([
            6,
            0,
            variant,
            7 * variant,
            pair,
            0,
            0,
            0,
            1,
            1,
            1,
            1,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
        ]);
        all.push((frame, six));
    }
    all
}

/// Also after the interface was down, when the kernel makes the fan-out anew.
#[test]
fn a_pair_has_one_queue_whatever_its_ports() {
    with_veth(1500, |pool| {
        let mut key = [0; 40];
        (0..40).for_each(|i| key[i] = (i as u8).wrapping_mul(89) ^ 0x5c);
        let by = ByPair { key, bits: 7 };
        let mut other = open("v1", pool);
        let mut others = start(&mut *other, 1);
        for queues in [2, 3, 8] {
            let mut device = open("v0", pool);
            assert_eq!(device.spread(), Spread::Unknown);
            device.deal_by_pair(&by);
            let mut ports = start(&mut *device, queues);
            assert_eq!(device.spread(), Spread::ByPair(by.clone()));
            for round in 0..2 {
                let all = of_pairs(40);
                for part in all.chunks(64) {
                    let frames: Vec<_> = part.iter().map(|(frame, _)| frame.clone()).collect();
                    assert_eq!(send(&mut *others[0], &frames), part.len());
                }
                for (number, port) in ports.chunks_mut(1).enumerate() {
                    let mine = |(_, pair): &&(Vec<u8>, Vec<u8>)| {
                        usize::from(queue_of(&by, pair, queues)) == number
                    };
                    let mut want: Vec<_> =
                        all.iter().filter(mine).map(|(f, _)| f.clone()).collect();
                    assert!(!want.is_empty());
                    let mut got = receive(port, want.len());
                    want.sort();
                    got.sort();
                    assert!(got == want, "queue {number} of {queues}, {round}: {}", got.len());
                }
                assert!(ip("link set v0 down") && ip("link set v0 up"));
                ports.iter_mut().for_each(|port| port.idle());
                link_becomes(&*device, true);
                receive(&mut ports, 0);
            }
        }
        let mut device = open("v0", pool);
        let _ports = start(&mut *device, 2);
        assert_eq!(device.spread(), Spread::ByFlow);
    });
}

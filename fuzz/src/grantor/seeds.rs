//! Inputs to begin with: packets, and what changes in between.

use crate::shield::seeds::mixed;

/// Packets, and what changes in between.
fn pieces() -> Vec<(&'static str, String, Vec<u8>)> {
    let packet = |client: u8, service: u8, dscp: u8, kind: u8, len: u8, place: u8| {
        vec![0, client, service, dscp, kind, len, place]
    };
    let both = |client: u8, dscp: u8, kind: u8| {
        [packet(client, 0, dscp, kind, 9, 0), packet(client, 0, dscp, kind | 64, 9, 0)].concat()
    };
    let all_of = |dscp: u8| -> Vec<u8> {
        let kinds = (0..8).flat_map(|kind| [kind, kind | 64]);
        kinds
            .flat_map(|kind| {
                [packet(1, 0, dscp, kind, 9, 0), packet(1, 3, dscp, kind, 9, 1)].concat()
            })
            .collect()
    };
    let outer: Vec<u8> = (0..6)
        .flat_map(|place| [packet(1, 0, 41, 32, 9, place), packet(1, 0, 41, 96, 9, place)])
        .flatten()
        .collect();
    let ecn: Vec<u8> =
        (0..4).flat_map(|bits| [both(bits, 1, 0), both(bits, 41, 0)].concat()).collect();
    let marked: Vec<u8> = [0, 64]
        .into_iter()
        .flat_map(|kind| [packet(1, 0xc0, 1, kind, 9, 0), packet(1, 0xc0, 41, kind, 9, 0)].concat())
        .collect();
    let flood = |n: u8, dscp: u8| -> Vec<u8> {
        (0..n).flat_map(|i| packet(i, 0, dscp + i % 9, i & 64, 9, 0)).collect()
    };
    // Behind the UDP header are eights: parts that begin at 0 have one eight more.
    let part = |client: u8, kind: u8, at: u8, len: u8, more: bool| {
        packet(client, 0, 41, kind | 1 | if more { 8 } else { 0 }, len, at)
    };
    let parts = |client: u8, kind: u8| {
        [
            part(client, kind, 0, 9, true),
            part(client, kind, 10, 9, true),
            part(client, kind, 19, 3, false),
        ]
    };
    let wholes: Vec<u8> = [0, 64]
        .into_iter()
        .flat_map(|kind| {
            let [a, b, c] = parts(7, kind);
            [a.clone(), a, c.clone(), b.clone(), b, c].concat()
        })
        .collect();
    let overlaps: Vec<u8> =
        [part(8, 0, 0, 9, true), part(8, 0, 5, 9, true), part(8, 0, 10, 9, true)].concat();
    let wrong: Vec<u8> = [
        part(9, 0, 0, 0, true),
        part(9, 0, 255, 255, false),
        part(9, 24, 0, 3, true),
        part(9, 88, 0, 3, true),
    ]
    .concat();
    let many: Vec<u8> = (0..70).flat_map(|n| part(10, 0, 3 * n, 1, true)).collect();
    let firsts: Vec<u8> = (0..100).flat_map(|n| part(n, 0, 0, 1, true)).collect();
    let all = [
        ("asks", [both(1, 41, 0), both(2, 3, 0), both(3, 63, 0)].concat()),
        ("granted", [both(1, 0, 0), both(1, 1, 0), both(1, 2, 0)].concat()),
        ("kinds", all_of(41)),
        ("kinds_granted", all_of(1)),
        ("kinds_renewing", all_of(2)),
        ("outer", outer.clone()),
        ("ecn", [&ecn[..], &marked, &[5, 2], &ecn, &marked].concat()),
        ("shadow", [&[5, 1][..], &all_of(41), &all_of(1), &wholes, &outer].concat()),
        (
            "denied",
            [&[3, 0xf2][..], &both(1, 41, 0), &both(1, 2, 0), &[3, 0xf7], &both(1, 9, 0)].concat(),
        ),
        (
            "programs",
            [&[3, 0xf1][..], &flood(40, 40), &[3, 0xf5], &flood(9, 40), &[3, 0xff], &flood(9, 40)]
                .concat(),
        ),
        (
            "silent",
            [
                &[3, 0xf0][..],
                &flood(40, 20),
                &flood(40, 40),
                &[6, 30],
                &both(1, 41, 0),
                &[3, 0xf3, 6, 10],
            ]
            .concat(),
        ),
        (
            "full",
            [
                &[3, 0x13][..],
                &flood(40, 20),
                &[3, 0x03],
                &flood(40, 20),
                &[6, 30, 3, 0xf3],
                &both(1, 2, 0),
            ]
            .concat(),
        ),
        (
            "instead",
            [&[3, 0xf0, 5, 12][..], &flood(60, 20), &[6, 30], &flood(30, 50), &[6, 31]].concat(),
        ),
        ("wholes", wholes.clone()),
        ("joined", [&[5, 32][..], &wholes, &[4, 3], &wholes, &[5, 35, 3, 0xf0], &wholes].concat()),
        ("parts", [&overlaps[..], &wrong, &many, &wholes].concat()),
        ("late", [&firsts[..20], &[6, 32], &firsts, &[6, 33], &wholes].concat()),
        ("room", [&firsts[..], &firsts, &wholes, &[3, 0xf0], &wholes, &firsts].concat()),
        (
            "ports",
            [
                &[3, 0xf0][..],
                &both(1, 41, 0),
                &wholes,
                &[7, 0, 3, 0xf3, 6, 10],
                &both(1, 41, 0),
                &[7, 1],
                &both(1, 41, 0),
            ]
            .concat(),
        ),
        (
            "ways",
            [
                &[3, 0xf1, 4, 2][..],
                &both(1, 41, 0),
                &[4, 3],
                &both(1, 41, 0),
                &[4, 1],
                &both(1, 41, 0),
            ]
            .concat(),
        ),
        (
            "clocks",
            [
                &[3, 0xf0][..],
                &both(1, 41, 0),
                &[6, 190],
                &both(1, 41, 0),
                &[6, 62, 6, 62, 3, 0xf3],
                &wholes,
            ]
            .concat(),
        ),
        ("stops", [&[3, 0xf0][..], &both(1, 41, 0), &wholes, &firsts[..14]].concat()),
        ("others", [&[1, 40, 8, 0, 0x45, 0, 0, 38][..], &[0; 34], &[2, 4, 8, 6, 0, 1]].concat()),
    ];
    all.into_iter().map(|(name, bytes)| ("grantor", name.to_owned(), bytes)).collect()
}

/// The same, and random ones.
pub fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    let some = (0..8).map(|n| ("grantor", format!("random_{n:02}"), random(n, 30)));
    pieces().into_iter().chain(some).collect()
}

/// A random input of so many pieces, those of the seeds, of which some bytes are others.
pub fn random(seed: u64, n: usize) -> Vec<u8> {
    mixed(&pieces(), seed, n, &[6, 3, 4, 5])
}

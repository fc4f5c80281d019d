//! Inputs to begin with.

/// Packets, decisions about them in messages, and what changes in between.
fn pieces() -> Vec<(&'static str, String, Vec<u8>)> {
    let packet =
        |client: u8, host: u8, ttl: u8, kind: u8, len: u8| vec![0, client, host, ttl, kind, len];
    let message = |verdict: &[u8]| [&[2, verdict.len() as u8][..], verdict].concat();
    let header = [1, 0, 0, 0];
    // Of client 7's flow to 10.20.0.6 and .12 (6 and 12 are protected): granted, declined.
    let granted = [
        &header[..],
        &[2, 0, 0, 0, 198, 51, 100, 7, 10, 20, 0, 6],
        &[0, 0, 4, 0, 0, 0, 1, 44, 0, 0, 1, 0, 0, 0, 0, 9],
    ]
    .concat();
    let declined =
        [&header[..], &[0, 0, 0, 0, 198, 51, 100, 7, 10, 20, 0, 12], &[0, 0, 0, 60]].concat();
    let program = [
        &header[..],
        &[4, 0, 0, 0, 198, 51, 100, 7, 10, 20, 0, 18],
        &[0, 0, 0, 60, 0, 0, 0, 1, 1, 2, 3, 4],
    ]
    .concat();
    // By grantedv2, straight on; by web; by the first with little; by tcp-services, for two ports.
    let rate = |kib: u8, direct| {
        [kib, 0, 0, 0, kib, 0, 0, 0, 255, 255, 255, 0, 0, 0, 0, 0, direct, 0, 0, 0]
    };
    let of = |host: u8, index: u8, cookie: &[u8]| {
        let words = (cookie.len() / 4) as u8;
        let flow = [4, 0, 0, 0, 198, 51, 100, 7, 10, 20, 0, host];
        [&header[..], &flow, &[0, 0, 0, 60, index, 0, 0, words], cookie].concat()
    };
    let ports = [&[9, 0, 0, 0, 255, 255, 0, 0, 1, 0, 0, 2, 53, 0, 80, 0][..], &[0; 20]].concat();
    let programs = [of(6, 2, &rate(255, 1)), of(12, 3, &rate(9, 0)), of(18, 2, &rate(1, 1))]
        .map(|decision| message(&decision))
        .concat();
    let services = message(&of(6, 4, &ports));
    let bad = [&granted[..], &[9, 0, 0, 0]].concat();
    let asks: Vec<u8> = (0..6).flat_map(|host| packet(7, 6 * host, 64, 0, 40)).collect();
    let kinds: Vec<u8> = (0..8)
        .flat_map(|kind| [packet(7, kind, 1, kind, 90), packet(7, kind, 1, kind | 64, 90)])
        .flatten()
        .collect();
    let long: Vec<u8> = (0..6).flat_map(|host| packet(7, host, 9, 128, 250)).collect();
    let framed: Vec<u8> = (0..6).flat_map(|host| packet(7, host, 9, 32, 20)).collect();
    let flood: Vec<u8> = (0..200).flat_map(|i| packet(i, i, 64, i & 64, 30)).collect();
    // More than the channel carries: the queue fills.
    let full: Vec<u8> = (0..200).flat_map(|i: u8| packet(i, i / 16 * 6, 64, 128, 230)).collect();
    // It has options, and no protection has its destination.
    let elsewhere = packet(7, 5, 64, 3, 40);
    let granted = message(&granted);
    let tcp = [raw4([198, 51, 100, 7], 6), raw4([198, 51, 100, 7], 1)].concat();
    let all = [
        ("asks", asks.clone()),
        ("granted", [&asks[..], &granted, &asks, &[4, 0], &asks, &[4, 1], &asks].concat()),
        ("declined", [&message(&declined)[..], &asks, &[7, 3], &asks].concat()),
        ("program", [&message(&program)[..], &asks].concat()),
        ("bad", [&message(&bad)[..], &asks, &message(&[2, 0, 0, 0]), &message(&[])].concat()),
        ("kinds", kinds.clone()),
        ("long", [&long[..], &granted, &long].concat()),
        ("framed", framed),
        (
            "shadow",
            [&[5, 1][..], &asks, &granted, &kinds, &long, &[5, 3], &asks, &[5, 0], &asks].concat(),
        ),
        ("flood", [&flood[..], &granted, &flood, &[7, 1], &flood].concat()),
        ("full", full.clone()),
        ("stale", [&full[..], &[5, 1, 8, 34], &asks].concat()),
        ("elsewhere", elsewhere),
        ("whose", [&[6, 1][..], &granted, &[6, 2], &granted, &asks].concat()),
        ("clocks", [&granted[..], &asks, &[8, 30], &asks, &[8, 33], &asks, &[8, 160]].concat()),
        ("ages", [&asks[..], &[8, 190], &asks, &granted, &[8, 62, 8, 62], &asks, &flood].concat()),
        ("back", [&[3, 40, 8, 0, 0x45, 0, 0, 38][..], &[0; 34], &[1, 4, 8, 6, 0, 1]].concat()),
    ];
    // Fragments that are all there, some that are not, IP in IP, and a policy that answers so.
    let parts: Vec<u8> = [
        packet(9, 0, 64, 1, 9),
        packet(9, 0, 64, 1, 9),
        packet(9, 0, 64, 2, 9),
        packet(9, 0, 64, 65, 9),
        packet(9, 0, 64, 66, 9),
    ]
    .concat();
    // In two, of both families; the last first, too.
    let wholes: Vec<u8> = [17, 18, 82, 81, 82, 81, 81]
        .into_iter()
        .flat_map(|kind| packet(9, 0, 64, kind, 8))
        .collect();
    // From a link, IP in IP, and extension headers beyond the end: none is put to a policy.
    let wrong: Vec<u8> =
        [raw4([169, 254, 0, 1], 17), raw4([198, 51, 100, 7], 4), raw6(60)].concat();
    let both = [&asks[..], &[8, 20], &kinds, &long, &parts, &wholes, &wrong, &[8, 20]].concat();
    let says = |how: u8| [&[9, how][..], &both, &[8, 20]].concat();
    let here = [
        // Whatever the clock's rate, 2^28 ticks are more than the 7 ms until a renewal is due, and
        // less than the 7 s that a grant lives.
        ("here", [says(0xf3), both.clone(), [8, 28].into(), both.clone()].concat()),
        ("here_declined", [says(0xf2), both.clone()].concat()),
        ("here_programs", [says(0xf1), says(0xf5), says(0xf7)].concat()),
        (
            "here_silent",
            [says(0xf0), flood.clone(), vec![8, 34], says(0xff), flood.clone()].concat(),
        ),
        ("here_full", [says(0x13), says(0x03), full.clone(), vec![8, 34], says(0xf3)].concat()),
        ("here_shadow", [vec![5, 1], says(0xf3), says(0xf2), vec![5, 0], says(0xf3)].concat()),
        ("here_ways", [vec![4, 0], says(0xf3), vec![4, 1], says(0xf3), vec![7, 2]].concat()),
    ];
    let here = here.map(|(name, bytes)| (name, [&[super::HERE][..], &bytes].concat()));
    let straight = [&[super::HERE][..], &says(0xf6), &both, &says(0xfb), &both].concat();
    let of_programs: [_; OF_PROGRAMS] = [
        ("programs", [&programs[..], &asks, &kinds, &asks, &tcp, &full, &[8, 33], &tcp].concat()),
        ("services", [&services[..], &asks, &tcp, &kinds].concat()),
        ("here_straight", straight),
    ];
    let all = all.into_iter().chain(here).chain(of_programs);
    all.map(|(name, bytes)| ("shield", name.to_owned(), bytes)).collect()
}

/// A frame to 10.20.0.6.
fn raw4(src: [u8; 4], protocol: u8) -> Vec<u8> {
    let mut header = [0x45, 0, 0, 28, 0, 0, 0, 0, 64, protocol, 0, 0, 0, 0, 0, 0, 10, 20, 0, 6];
    header[12..16].copy_from_slice(&src);
    let sum = wire::checksum::checksum(&header).to_be_bytes();
    header[10..12].copy_from_slice(&sum);
    [&[1, 30, 8, 0][..], &header, &[0; 8]].concat()
}

/// A frame to 2001:db8:14::6, whose next header has 8 bytes of 16.
fn raw6(next: u8) -> Vec<u8> {
    let mut header = [0; 40];
    (header[0], header[5], header[6], header[7]) = (0x60, 8, next, 64);
    header[8..12].copy_from_slice(&[0x20, 1, 0x0d, 0xb8]);
    header[24..32].copy_from_slice(&[0x20, 1, 0x0d, 0xb8, 0, 20, 0, 0]);
    (header[23], header[39]) = (9, 6);
    [&[1, 50, 0x86, 0xdd][..], &header, &[17, 1, 0, 0, 0, 0, 0, 0]].concat()
}

/// The last of the pieces.
const OF_PROGRAMS: usize = 3;

/// The same, and random ones.
pub fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    let some = (0..12).map(|n| ("shield", format!("random_{n:02}"), random(n, 30)));
    pieces().into_iter().chain(some).collect()
}

/// A random input of so many pieces, those of the seeds, of which some bytes are others. The first
/// eight have none of programs: they stay what they are, for what they alone reach.
pub fn random(seed: u64, n: usize) -> Vec<u8> {
    let pieces = pieces();
    let known = pieces.len() - if seed < 8 { OF_PROGRAMS } else { 0 };
    let mixed = mixed(&pieces[..known], seed, n, &[8, 4, 9]);
    if seed % 2 == 1 { [&[super::HERE][..], &mixed].concat() } else { mixed }
}

/// Of these pieces; between them are operations with one argument each, of these codes: the
/// first always, one of the others now and then.
pub fn mixed(
    pieces: &[(&'static str, String, Vec<u8>)],
    seed: u64,
    n: usize,
    codes: &[u8],
) -> Vec<u8> {
    let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
    let mut next = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut bytes = Vec::new();
    for _ in 0..n {
        let (_, _, piece) = &pieces[next(pieces.len())];
        let at = next(piece.len());
        let len = 1 + next(48);
        bytes.extend(piece.iter().skip(if next(2) == 0 { 0 } else { at }).take(len));
        bytes.extend([codes[0], next(256) as u8]);
        if next(4) == 0 {
            bytes.extend([codes[1 + next(codes.len() - 1)], 1]);
        }
        for _ in 0..next(4) {
            let at = next(bytes.len());
            bytes[at] = next(256) as u8;
        }
    }
    bytes
}

//! The rings to a policy's process: whatever it writes, wherever and whenever, a question
//! gets one verdict, and nothing is read or written beyond them.

/// Steps of a worker and of a hostile process.
pub fn ring(bytes: &[u8]) {
    ::policy::cell::hostile::drive(bytes);
}

/// Honest rounds; garbage among them; indices that jump; an end.
pub fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    let word = |step: u8, word: u64| [&[step][..], &word.to_le_bytes()].concat();
    let honest = [vec![0, 1, 2, 3, 4], word(6, 2), word(7, 3), word(6, 4), word(5, 9)].concat();
    let garbage = [word(9, 7), [7; 88].to_vec(), word(5, 99)].concat();
    let poke = [vec![10], [3; 16].to_vec(), word(8, 1), word(5, 99)].concat();
    let jump = [word(11, 1 << 31), word(5, 99), vec![13]].concat();
    let over = [vec![0, 0, 4], word(15, 1), word(5, 1)].concat();
    let first = |depth: u8, parts: &[&Vec<u8>]| {
        let parts = parts.iter().flat_map(|part| part.iter().copied());
        std::iter::once(depth).chain(parts).collect::<Vec<u8>>()
    };
    [
        ("honest", first(3, &[&honest, &honest])),
        ("garbage", first(3, &[&honest, &garbage, &honest])),
        ("poke", first(63, &[&honest, &poke, &honest, &poke])),
        ("jump", first(0, &[&honest, &jump, &honest])),
        ("over", first(255, &[&honest, &over, &honest])),
    ]
    .map(|(name, bytes)| ("policy_ring", name.to_owned(), bytes))
    .to_vec()
}

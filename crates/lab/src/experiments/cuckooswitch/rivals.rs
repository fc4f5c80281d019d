//! Which of others' tables have how many entries.
//!
//! ```text
//!  up to 16 million     all
//!  up to 64 million     the paper's, and the fastest of the others
//!  up to 300 million    the paper's dense_hash_map, which its figures have there, and hashbrown
//!  10⁹                  none: 34 GB and more, filled one by one for minutes
//! ```

use crate::matching::{Contestant, room_for};

/// Those of more than 16 million entries, and the bytes an entry that they take at most.
const MANY: [(&str, usize); 8] = [
    ("google-dense", 36),
    ("hashbrown-fx", 36),
    ("tbb-hash", 64),
    ("std-unordered", 48),
    ("google-sparse", 24),
    ("rte_hash", 48),
    ("absl-flat", 36),
    ("boost-flat", 36),
];

/// Of them those of more than [`TOGETHER`]: a minute each to fill.
const MOST: [&str; 2] = ["google-dense", "hashbrown-fx"];

/// Whether `one` has a table of so many.
///
/// # Errors
/// Where a rival has none: why not.
pub(super) fn take_part(one: &Contestant, size: usize) -> Result<(), String> {
    if one.ours { Ok(()) } else { named(&one.name, size) }
}

fn named(name: &str, size: usize) -> Result<(), String> {
    if size <= ALL {
        return Ok(());
    }
    let Some(bytes) = bytes(name) else {
        let why = "the paper does not have it, and others here are faster";
        return Err(format!("left out beyond 16 M entries: {why}"));
    };
    if size > MINUTE {
        let gb = (bytes * size) as f64 * 1e-9;
        return Err(format!("left out: up to {gb:.0} GB, filled one by one for minutes"));
    }
    if size > TOGETHER && !MOST.contains(&name) {
        let why = format!("it takes a minute or more to fill; {} take part", MOST.join(" and "));
        return Err(format!("left out beyond 64 M entries: {why}"));
    }
    Ok(())
}

/// Looks whether a table of so many has room.
///
/// # Errors
/// When memory does not allow it.
pub(super) fn room(name: &str, size: usize) -> Result<(), String> {
    room_for(bytes(name).unwrap_or(0).div_ceil(OURS), size)
}

/// The same of the tables of more than 16 million entries that are filled side by side.
///
/// # Errors
/// When memory does not allow them all.
pub(super) fn room_for_all(names: &[&str], size: usize) -> Result<(), String> {
    let all: usize = names.iter().filter_map(|name| bytes(name)).sum();
    if size <= ALL { Ok(()) } else { room_for(all.div_ceil(OURS), size) }
}

fn bytes(name: &str) -> Option<usize> {
    MANY.iter().find(|(other, _)| *other == name).map(|(_, bytes)| *bytes)
}

/// What is asked for an entry of ours.
const OURS: usize = 9;
/// So many entries all have.
const ALL: usize = 16_000_000;
/// So many are filled side by side, whoever takes part.
pub(super) const TOGETHER: usize = 64_000_000;
/// So many are filled in about a minute.
const MINUTE: usize = 300_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_says_why() {
        let refused = |name, size| named(name, size).err().unwrap_or_default();
        assert_eq!(refused("papaya-fx", 7_969_177), "");
        assert!(refused("papaya-fx", 31_876_710).contains("the paper does not have it"));
        assert_eq!(refused("google-sparse", 31_876_710), "");
        assert!(
            refused("google-sparse", 255_013_683).contains("google-dense and hashbrown-fx take")
        );
        assert_eq!(refused("google-dense", 255_013_683), "");
        assert!(refused("google-dense", 1_000_000_000).contains("up to 36 GB"));
    }
}

//! Random numbers that nobody outside knows, different in every run.

use std::fs::File;
use std::io::Read;

use crate::error::{Doing, Error};

/// Some random words.
///
/// # Errors
/// When the kernel gives none.
pub fn secret<const N: usize>() -> Result<[u64; N], Error> {
    let mut words = [[0; 8]; N];
    let read = File::open(RANDOM).and_then(|mut file| file.read_exact(words.as_flattened_mut()));
    read.doing(|| format!("read {RANDOM}"))?;
    Ok(words.map(u64::from_ne_bytes))
}

/// The kernel's source of random bytes.
const RANDOM: &str = "/dev/urandom";

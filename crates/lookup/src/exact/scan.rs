//! Comparing a line's eight words with one, by the instructions that the
//! processor has.
//!
//! A line is written while it is read. Rust's loads of whole vectors may not
//! race with that; an instruction may, and x86 loads each aligned word of a vector
//! as a whole, later than all that is loaded before it. So the vector is loaded in
//! assembly, once: as eight atomic loads, in no order, each with acquire.
//!
//! | name     | instructions a line |
//! |----------|---------------------|
//! | portable | 32                  |
//! | avx2     | 14                  |
//! | avx512   | 6                   |
//!
//! With AVX-512 the word itself is taken out of the vector (`vpcompressq`): if its slot were
//! found by the vector, the compiler would make a branch of the comparison that follows, which
//! for every fifth key goes the other way.

use std::hint::select_unpredictable;

use super::lines::{Line, SLOTS};
use crate::lpm::isa::Isa;

/// How a line is searched.
pub(super) trait Scan {
    /// The word of `line` that agrees with `want` in all but the low
    /// [`FREE_BITS`], or [`NONE`]. Never that for a word that is there all the
    /// time.
    ///
    /// # Safety
    /// The processor has the instructions of this implementation.
    unsafe fn scan(line: &Line, want: &u64) -> u64;
}

/// What is done to a table with a [`Scan`], compiled for each.
pub(super) trait Work {
    /// Does it.
    ///
    /// # Safety
    /// As [`Scan::scan`].
    unsafe fn with<S: Scan>(self);
}

/// Does `work` with the instructions of `isa`.
#[inline(always)]
pub(super) fn run(isa: Isa, work: impl Work) {
    match isa {
        #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
        // SAFETY: the value exists only where the processor has AVX2 and BMI2.
        Isa::Avx2 => unsafe { x86::with_avx2(work) },
        #[cfg(all(avx512, not(any(miri, loom))))]
        // SAFETY: and here AVX-512 F and DQ.
        Isa::Avx512 => unsafe { x86::with_avx512(work) },
        // SAFETY: every processor can do what is portable.
        _ => unsafe { work.with::<Portable>() },
    }
}

/// Bits of a word that no search looks at: the value, and the slot's own hint.
pub(super) const FREE_BITS: u32 = 17;

/// No word; as a value, [`ABSENT`](super::ABSENT).
pub(super) const NONE: u64 = u64::MAX;

/// What every processor has.
pub(super) struct Portable;

impl Scan for Portable {
    /// Every word is compared, and none decides a branch: where an entry is
    /// nobody can predict.
    #[inline(always)]
    unsafe fn scan(line: &Line, want: &u64) -> u64 {
        let mut found = NONE;
        for slot in 0..SLOTS {
            let word = line.load(slot);
            // Not `&=`: an entry taken out and put back meanwhile may match twice.
            found = select_unpredictable(agree(word, *want), word, found);
        }
        found
    }
}

#[inline(always)]
fn agree(word: u64, want: u64) -> bool {
    (word ^ want) >> FREE_BITS == 0
}

#[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
mod x86 {
    use std::arch::asm;
    #[cfg(avx512)]
    use std::arch::x86_64::_mm512_set1_epi64;
    use std::hint::select_unpredictable;

    use super::{FREE_BITS, Line, NONE, SLOTS, Scan, Work, agree};

    #[target_feature(enable = "avx2,bmi2")]
    pub(super) fn with_avx2(work: impl Work) {
        // SAFETY: the instructions are those of this function.
        unsafe { work.with::<Avx2>() }
    }

    #[cfg(avx512)]
    #[target_feature(enable = "avx2,bmi2,avx512f,avx512dq")]
    pub(super) fn with_avx512(work: impl Work) {
        // SAFETY: the instructions are those of this function.
        unsafe { work.with::<Avx512>() }
    }

    /// Two halves of a line.
    struct Avx2;

    impl Scan for Avx2 {
        #[inline]
        #[target_feature(enable = "avx2,bmi2")]
        unsafe fn scan(line: &Line, &want: &u64) -> u64 {
            let (low, high): (u32, u32);
            // SAFETY:
            // - the caller's processor has AVX2;
            // - it reads the 64 bytes of `line` and writes registers only.
            unsafe {
                asm!(
                    "vmovq {w:x}, {want}",
                    "vpbroadcastq {w}, {w:x}",
                    "vpxor {a}, {w}, [{line}]",
                    "vpxor {b}, {w}, [{line} + 32]",
                    "vpsrlq {a}, {a}, {free}",
                    "vpsrlq {b}, {b}, {free}",
                    "vpxor {w:x}, {w:x}, {w:x}",
                    "vpcmpeqq {a}, {a}, {w}",
                    "vpcmpeqq {b}, {b}, {w}",
                    "vmovmskpd {low:e}, {a}",
                    "vmovmskpd {high:e}, {b}",
                    line = in(reg) line,
                    want = in(reg) want,
                    free = const FREE_BITS,
                    w = out(ymm_reg) _,
                    a = out(ymm_reg) _,
                    b = out(ymm_reg) _,
                    low = lateout(reg) low,
                    high = lateout(reg) high,
                    options(nostack, readonly, preserves_flags),
                );
            }
            decide(line, want, low | high << 4)
        }
    }

    /// A line at once.
    #[cfg(avx512)]
    struct Avx512;

    #[cfg(avx512)]
    impl Scan for Avx512 {
        /// The words that agree move down, to where there were ones before.
        #[inline]
        #[target_feature(enable = "avx2,bmi2,avx512f,avx512dq")]
        #[allow(clippy::incompatible_msrv)] // `avx512` is set for compilers that have it
        unsafe fn scan(line: &Line, want: &u64) -> u64 {
            let compared = _mm512_set1_epi64(-1 << FREE_BITS);
            let word: u64;
            // SAFETY:
            // - the caller's processor has AVX-512F and DQ;
            // - it reads the 64 bytes of `line` and the 8 of `want`, and writes
            //   registers only.
            unsafe {
                asm!(
                    "vmovdqa64 {words}, [{line}]",
                    "vpxorq {w}, {words}, [{want}]{{1to8}}",
                    "vptestnmq {k}, {w}, {compared}",
                    "vpternlogd {w}, {w}, {w}, 0xff",
                    "vpcompressq {w}{{{k}}}, {words}",
                    "vmovq {word}, {w:x}",
                    line = in(reg) line,
                    want = in(reg) want,
                    compared = in(zmm_reg) compared,
                    words = out(zmm_reg) _,
                    w = out(zmm_reg) _,
                    k = out(kreg) _,
                    word = lateout(reg) word,
                    options(nostack, readonly, preserves_flags),
                );
            }
            word
        }
    }

    /// The word in the first of `slots`, if it is still the one: if not, it was
    /// taken out or moved after the search began, as the caller finds out.
    #[inline(always)]
    fn decide(line: &Line, want: u64, slots: u32) -> u64 {
        let slot = (slots | 1 << SLOTS).trailing_zeros() as usize % SLOTS;
        let word = line.load(slot);
        select_unpredictable(agree(word, want), word, NONE)
    }
}

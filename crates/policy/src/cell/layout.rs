//! The layout of the two rings between a worker and a process.
//!
//! ```text
//!  questions, written by the worker          verdicts, written by the process
//!   64  head                                  64  head
//!  128  tokens, one a question, in turn      128  sleeps: odd while it does
//!       places, one a token                  192  busy: questions of the batch that it decides
//!                                            196  at: which of them (of the first ring, for all)
//!                                            256  verdicts, in turn
//!
//!  token     generation · place (the lowest bits)
//!  place     what was found out (32 bytes) · first bytes of the packet
//!  verdict   12 words of 8 bytes: token, kind, flags · expiry, … · cookie
//! ```
//!
//! A place is the worker's again with its verdict, and there are as many places as tokens
//! and verdicts. So neither ring can overflow, and no index goes the other way, in which
//! a process could lie about what it has read.

use wire::ggu;

use crate::ask::{Facts, Matter, Question};

/// Sizes of a pair of rings.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Layout {
    /// The most questions without a verdict at a time: a power of two.
    depth: u32,
    /// The most bytes of a packet that a question carries.
    captured: u32,
}

impl Layout {
    /// `depth` is rounded up, and both values are limited to the possible range.
    pub fn new(depth: u32, captured: u32) -> Layout {
        let depth = depth.clamp(1, MAX_DEPTH).next_power_of_two();
        Layout { depth, captured: captured.clamp(64, MAX_CAPTURED) }
    }

    /// Places.
    #[inline]
    pub fn depth(self) -> u32 {
        self.depth
    }

    /// The most bytes of a packet that a question carries.
    #[inline]
    pub fn captured(self) -> u32 {
        self.captured
    }

    /// The place that a token names.
    #[inline]
    pub fn place(self, token: u32) -> u32 {
        token & (self.depth - 1)
    }

    fn stride(self) -> usize {
        (FACTS + self.captured as usize).next_multiple_of(64)
    }

    fn places(self) -> usize {
        (TOKENS + 4 * self.depth as usize).next_multiple_of(64)
    }

    /// The offset of the `index`th question's token, counted since the start.
    #[inline]
    pub fn token_at(self, index: u32) -> usize {
        TOKENS + 4 * self.place(index) as usize
    }

    /// The offset of a place's question.
    #[inline]
    pub fn question_at(self, place: u32) -> usize {
        self.places() + self.stride() * (place & (self.depth - 1)) as usize
    }

    /// The offset of the `index`th verdict, counted since the start.
    #[inline]
    pub fn verdict_at(self, index: u32) -> usize {
        VERDICTS + VERDICT * self.place(index) as usize
    }

    /// Bytes of the questions' memory.
    pub fn questions(self) -> usize {
        self.places() + self.stride() * self.depth as usize
    }

    /// Bytes of the verdicts' memory.
    pub fn verdicts(self) -> usize {
        VERDICTS + VERDICT * self.depth as usize
    }
}

/// The offset of the head, in both memories.
pub(crate) const HEAD: usize = 64;
/// The offset of the word by which a process reports that it sleeps.
pub(crate) const SLEEPS: usize = 128;
const TOKENS: usize = 128;
/// The offset of the number of questions that a process decides at the moment; 0: none.
pub(crate) const BUSY: usize = 192;
/// The offset of the word by which a policy reports at which of these questions it is. All rings of
/// a process use the word of the first.
pub(crate) const AT: usize = 196;
/// The offset of the word in which a process notes the policy's line when it crashes, or when a C
/// function does not return, in the first of its rings; 0: none.
pub(crate) const LINE: usize = 200;
const VERDICTS: usize = 256;
/// Bytes before those of the packet.
pub(crate) const FACTS: usize = 32;
const VERDICT: usize = 8 * WORDS;
/// The most places: half of a token's bits are left to generations.
const MAX_DEPTH: u32 = 1 << 16;
/// No packet is longer.
const MAX_CAPTURED: u32 = 1 << 16;

/// A question without its token and bytes.
#[inline]
pub(crate) fn facts(question: &Question<'_>, captured: u32) -> [u8; FACTS] {
    let facts = &question.facts;
    let mut out = [0; FACTS];
    out[0] = match question.matter {
        Matter::Packet => 0,
        Matter::Punish => 1,
    };
    out[1] = facts.frag.into();
    (out[2], out[3], out[4]) = (facts.l4_proto, facts.priority, facts.outer_ecn);
    let words = [
        facts.outer_ethertype,
        facts.inner_ethertype,
        facts.upper_len,
        facts.outer_l3,
        facts.inner_l3,
        facts.l4,
    ];
    for (to, word) in out[6..18].chunks_exact_mut(2).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    out[20..24].copy_from_slice(&captured.to_ne_bytes());
    out
}

/// The question that [`facts`] wrote, and the number of its bytes.
#[inline]
pub(crate) fn parse_facts(token: u32, from: &[u8; FACTS]) -> (Question<'static>, u32) {
    let word = |at: usize| u16::from_ne_bytes([from[at], from[at + 1]]);
    let facts = Facts {
        outer_ethertype: word(6),
        inner_ethertype: word(8),
        l4_proto: from[2],
        priority: from[3],
        outer_ecn: from[4],
        frag: from[1] != 0,
        upper_len: word(10),
        outer_l3: word(12),
        inner_l3: word(14),
        l4: word(16),
    };
    let matter = if from[0] == 1 { Matter::Punish } else { Matter::Packet };
    let captured = u32::from_ne_bytes([from[20], from[21], from[22], from[23]]);
    (Question { id: token, matter, facts, bytes: &[] }, captured)
}

/// A process's answer to one question.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Said {
    /// As in [`crate::ask::Verdict`].
    Verdict {
        /// The packet goes on.
        forward: bool,
        /// The decision about the flow.
        decision: Option<ggu::Verdict>,
    },
    /// The policy failed at it.
    Failed,
}

/// Words of a verdict.
pub(crate) const WORDS: usize = 12;
/// Words before the cookie.
pub(crate) const WORDS_BEFORE: usize = 4;

const NONE: u64 = 0;
const DECLINED: u64 = 1;
const GRANTED: u64 = 2;
const PROGRAM: u64 = 3;
const FAILED: u64 = 4;
const FORWARD: u64 = 1;

/// A verdict as words, and how many of them count.
#[inline]
pub(crate) fn emit(token: u32, said: &Said) -> ([u64; WORDS], usize) {
    let mut words = [0; WORDS];
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let (kind, forward) = match *said {
        Said::Failed => (FAILED, false),
        Said::Verdict { forward, decision } => {
            let kind = match decision {
                None => NONE,
                Some(ggu::Verdict::Declined { expire_s }) => {
                    words[1] = expire_s.into();
                    DECLINED
                }
                Some(ggu::Verdict::Granted {
                    rate_kib,
                    expire_s,
                    next_renewal_ms,
                    renewal_step_ms,
                }) => {
                    words[1] = pair(expire_s, rate_kib);
                    words[2] = pair(next_renewal_ms, renewal_step_ms);
                    GRANTED
                }
                Some(ggu::Verdict::Program { expire_s, index, cookie }) => {
                    words[1] = pair(expire_s, index.into());
                    for (word, bytes) in
                        words[WORDS_BEFORE..].iter_mut().zip(cookie.as_chunks::<8>().0)
                    {
                        *word = u64::from_ne_bytes(*bytes);
                    }
                    PROGRAM
                }
            };
            (kind, forward)
        }
    };
    words[0] = u64::from(token) | kind << 32 | u64::from(forward) << 40;
    (words, if kind == PROGRAM { WORDS } else { WORDS_BEFORE })
}

/// The token of a verdict.
#[inline]
pub(crate) fn token(first: u64) -> u32 {
    first as u32
}

/// The contents of the words before the cookie, with each of their bits in range. `cookie` supplies
/// the others, where they count. `None`: no verdict has this form.
#[inline]
pub(crate) fn parse(
    words: &[u64; WORDS_BEFORE],
    cookie: impl FnOnce() -> [u64; WORDS - WORDS_BEFORE],
) -> Option<Said> {
    let (kind, flags) = (words[0] >> 32 & 0xff, words[0] >> 40);
    let (low, high) = (words[1] as u32, (words[1] >> 32) as u32);
    let forward = flags == FORWARD;
    if flags > FORWARD || words[3] != 0 || kind != GRANTED && words[2] != 0 {
        return None;
    }
    let decision = match kind {
        NONE if words[1] == 0 => None,
        FAILED if words[1] == 0 && !forward => return Some(Said::Failed),
        DECLINED if high == 0 => Some(ggu::Verdict::Declined { expire_s: low }),
        GRANTED => Some(ggu::Verdict::Granted {
            rate_kib: high,
            expire_s: low,
            next_renewal_ms: words[2] as u32,
            renewal_step_ms: (words[2] >> 32) as u32,
        }),
        PROGRAM => {
            let index = u8::try_from(high).ok()?;
            let mut bytes = [0; ggu::COOKIE_LEN];
            for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(cookie()) {
                *to = word.to_ne_bytes();
            }
            Some(ggu::Verdict::Program { expire_s: low, index, cookie: bytes })
        }
        _ => return None,
    };
    Some(Said::Verdict { forward, decision })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn question(id: u32, bytes: &[u8]) -> Question<'_> {
        let facts = Facts {
            outer_ethertype: 0x0800,
            inner_ethertype: 0x86dd,
            l4_proto: 6,
            priority: 41,
            outer_ecn: 2,
            frag: id % 2 == 1,
            upper_len: 1_000,
            outer_l3: 14,
            inner_l3: 34,
            l4: 74,
        };
        let matter = if id.is_multiple_of(3) { Matter::Punish } else { Matter::Packet };
        Question { id, matter, facts, bytes }
    }

    pub(crate) fn decisions() -> [Option<ggu::Verdict>; 4] {
        let granted = ggu::Verdict::Granted {
            rate_kib: u32::MAX,
            expire_s: 300,
            next_renewal_ms: 240_000,
            renewal_step_ms: u32::MAX - 1,
        };
        let cookie = std::array::from_fn(|i| i as u8 ^ 0x5a);
        let program = ggu::Verdict::Program { expire_s: u32::MAX, index: 255, cookie };
        [None, Some(ggu::Verdict::Declined { expire_s: 600 }), Some(granted), Some(program)]
    }

    #[test]
    fn what_is_written_is_read() {
        for id in 0..6 {
            let asked = question(id, &[]);
            let (read, captured) = parse_facts(id, &facts(&asked, 77 + id));
            assert_eq!((read.id, read.matter, read.facts), (id, asked.matter, asked.facts));
            assert_eq!(captured, 77 + id);
        }
        let verdicts = decisions()
            .into_iter()
            .flat_map(|decision| [false, true].map(|forward| Said::Verdict { forward, decision }));
        for said in verdicts.chain([Said::Failed]) {
            let (words, count) = emit(0xfedc_ba98, &said);
            assert_eq!(token(words[0]), 0xfedc_ba98);
            let cookie = || {
                assert_eq!(count, WORDS);
                *words.last_chunk().unwrap()
            };
            assert_eq!(parse(words.first_chunk().unwrap(), cookie), Some(said));
        }
    }

    #[test]
    fn what_no_verdict_has_is_refused() {
        let good = |said| *emit(1, &said).0.first_chunk::<WORDS_BEFORE>().unwrap();
        let all = decisions().map(|decision| good(Said::Verdict { forward: true, decision }));
        let [none, declined, granted, program] = all;
        let failed = good(Said::Failed);
        let bad = |words: [u64; WORDS_BEFORE], word: usize, bit: u32| {
            let mut words = words;
            words[word] ^= 1 << bit;
            assert_eq!(parse(&words, || [0; 8]), None, "{word} {bit} {words:x?}");
        };
        for words in [none, declined, granted, program, failed] {
            (41..64).for_each(|bit| bad(words, 0, bit));
            (35..40).for_each(|bit| bad(words, 0, bit));
            (0..64).for_each(|bit| bad(words, 3, bit));
        }
        for words in [none, declined, program, failed] {
            (0..64).for_each(|bit| bad(words, 2, bit));
        }
        (32..64).for_each(|bit| bad(declined, 1, bit));
        (40..64).for_each(|bit| bad(program, 1, bit));
        (0..64).for_each(|bit| bad(none, 1, bit));
        (0..64).for_each(|bit| bad(failed, 1, bit));
        bad(failed, 0, 40);
    }

    #[test]
    fn nothing_overlaps_and_all_is_inside() {
        for (depth, captured) in [(1, 0), (3, 256), (1024, 256), (u32::MAX, 9_000), (64, 1 << 20)] {
            let layout = Layout::new(depth, captured);
            let last = layout.depth() - 1;
            assert!(layout.depth().is_power_of_two() && layout.depth() <= MAX_DEPTH);
            assert!(layout.token_at(last) + 4 <= layout.question_at(0));
            let end = FACTS + layout.captured() as usize;
            assert!(layout.question_at(last) + end <= layout.questions());
            assert!(depth == 1 || layout.question_at(0) + end <= layout.question_at(1));
            assert_eq!(layout.verdict_at(last) + VERDICT, layout.verdicts());
            assert_eq!(layout.token_at(last.wrapping_add(1)), layout.token_at(0));
        }
    }
}

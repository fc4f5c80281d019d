//! What a process was asked when it ended, for the operator: a packet to try the policy with.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::Ordering;

use wire::bytes::array;
use wire::{ethernet, ipv4, ipv6};

use super::child::BATCH;
use super::layout::{self, BUSY, FACTS, HEAD, Layout};
use super::shared::Window;
use crate::ask::{Matter, Question};

/// The function of the policy and the flow that it was asked about, in words; `at` is the question
/// of the batch. `None`: the process decided nothing. It is gone, so nothing changes any more; its
/// numbers are a stranger's, and at worst name another flow.
pub(super) fn asked(
    layout: Layout,
    questions: &Window,
    verdicts: &Window,
    at: u32,
) -> Option<String> {
    let n = verdicts.load(BUSY, Ordering::Relaxed);
    if n == 0 || n as usize > BATCH {
        return None;
    }
    // A batch that the policy decides as a whole has no such question.
    let (index, words) = match at {
        _ if at < n => (at, String::new()),
        _ => (0, format!("_batch, {n} packets, the first")),
    };
    let given = verdicts.load(HEAD, Ordering::Acquire);
    let token = questions.load(layout.token_at(given.wrapping_add(index)), Ordering::Relaxed);
    let len = FACTS + layout.captured().min(SEEN) as usize;
    let mut copy = [0; (FACTS + SEEN as usize) / 8];
    questions.copy(layout.question_at(layout.place(token)), &mut copy[..len / 8]);
    let mut bytes = [0; FACTS + SEEN as usize];
    for (to, word) in bytes.chunks_exact_mut(8).zip(copy) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    let (question, captured) = layout::parse_facts(token, bytes.first_chunk()?);
    let captured = (captured as usize).min(len / 8 * 8 - FACTS);
    let flow = flow(&Question { bytes: &bytes[FACTS..][..captured], ..question });
    let function = match question.matter {
        Matter::Packet => "lookup_policy",
        Matter::Punish => "lookup_frag_punish_policy",
    };
    Some(format!("in {function}{words} about {}", flow.as_deref().unwrap_or("an unknown flow")))
}

/// The ends of the inner packet.
fn flow(question: &Question<'_>) -> Option<String> {
    let inner = question.bytes.get(question.facts.inner_l3.into()..)?;
    match question.facts.inner_ethertype {
        ethernet::IPV4 => {
            let head = inner.first_chunk::<{ ipv4::MIN_LEN }>()?;
            let end = |at| Ipv4Addr::from(array::<4>(head, at));
            Some(format!("{} > {}", end(ipv4::SRC), end(ipv4::DST)))
        }
        ethernet::IPV6 => {
            let head = inner.first_chunk::<{ ipv6::LEN }>()?;
            let end = |at| Ipv6Addr::from(array::<16>(head, at));
            Some(format!("{} > {}", end(ipv6::SRC), end(ipv6::DST)))
        }
        _ => None,
    }
}

/// The first bytes of a packet in which its inner header is looked for: behind a link header with
/// two tags and an IPv6 header.
const SEEN: u32 = 104;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cell::layout::tests::question;
    use crate::cell::line::Line;
    use crate::cell::shared::within;

    #[test]
    fn the_question_is_named_at_which_a_process_was() {
        let layout = Layout::new(8, 96);
        let ((own, questions), (mut said, says)) =
            (within(layout.questions()), within(layout.verdicts()));
        let says = Arc::new(says);
        let instead = crate::ask::Instead::default();
        let mut line = Line::new(layout, own, says.clone(), None, Arc::default(), instead);
        for id in 0..6_u8 {
            let packet = [[0; 34].as_slice(), &[0; 8], &[id; 32], &[0; 22]].concat();
            let end = if id == 5 { 64 } else { packet.len() };
            line.ask(&question(id.into(), &packet[..end])).unwrap();
        }
        line.flush();
        assert_eq!(asked(layout, &questions, &says, 0), None, "nothing is being decided");
        said.store(HEAD, 2, Ordering::Release);
        said.store(BUSY, 4, Ordering::Relaxed);
        let flow = |word: &str| format!("about {0} > {0}", [word; 8].join(":"));
        for (at, words, of) in [
            (0, "in lookup_policy", flow("202")),
            (1, "in lookup_frag_punish_policy", flow("303")),
            (3, "in lookup_policy", "about an unknown flow".into()),
            (u32::MAX, "in lookup_policy_batch, 4 packets, the first", flow("202")),
        ] {
            assert_eq!(asked(layout, &questions, &says, at), Some(format!("{words} {of}")));
        }
        // What no honest process writes.
        let mut word = 1_u32;
        for _ in 0..if cfg!(miri) { 10 } else { 1000 } {
            for at in (0..layout.verdicts()).step_by(4) {
                word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                said.store(at, word >> (word % 32), Ordering::Relaxed);
            }
            asked(layout, &questions, &says, word);
        }
    }
}

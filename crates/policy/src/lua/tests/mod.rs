//! What a policy sees and says, the specification's libraries, and policies that mean ill.

mod deployed;
mod examples;
mod hostile;
mod libraries;
mod seen;
mod speed;

use wire::ggu;

use super::error::Error;
use super::*;
use crate::ask::{Facts, Matter, Question, Verdict};

const STOCK: &str = crate::trial::USUAL;

/// A frame with an encapsulated packet, and what a worker knows of it.
#[derive(Clone, Debug)]
struct Asked {
    facts: Facts,
    frame: Vec<u8>,
}

impl Asked {
    fn question(&self, id: u32) -> Question<'_> {
        Question { id, matter: Matter::Packet, facts: self.facts, bytes: &self.frame }
    }
}

/// From `src` to 203.0.113.5 or its like, with `upper` behind the inner header.
fn asked(src: &str, proto: u8, ttl: u8, upper: &[u8]) -> Asked {
    let mut frame = vec![0u8; 14];
    let (mut inner, ethertype) = match src.parse().expect("an address") {
        std::net::IpAddr::V4(src) => {
            let mut ip = vec![0x45, 0, 0, 20 + upper.len() as u8, 0, 0, 0, 0, ttl, proto, 0, 0];
            ip.extend(src.octets());
            ip.extend([203, 0, 113, 5]);
            (ip, 0x0800)
        }
        std::net::IpAddr::V6(src) => {
            let mut ip = vec![0x60, 0, 0, 0, 0, upper.len() as u8, proto, ttl];
            ip.extend(src.octets());
            ip.extend("2001:db8::5".parse::<std::net::Ipv6Addr>().expect("one").octets());
            (ip, 0x86dd)
        }
    };
    let header = inner.len();
    inner.extend(upper);
    let mut outer = vec![0x45, 41 << 2, 0, (20 + inner.len()) as u8, 0, 0, 0x40, 0, 64, 4, 0, 0];
    outer.extend([10, 0, 2, 1, 10, 0, 2, 9]);
    frame.extend(outer);
    frame.extend(inner);
    let facts = Facts {
        outer_ethertype: 0x0800,
        inner_ethertype: ethertype,
        l4_proto: proto,
        priority: 41,
        outer_ecn: 2,
        frag: false,
        upper_len: upper.len() as u16,
        outer_l3: 14,
        inner_l3: 34,
        l4: 34 + header as u16,
    };
    Asked { facts, frame }
}

/// A TCP or UDP header towards `port`.
fn to_port(port: u16) -> [u8; 20] {
    let mut upper = [0; 20];
    upper[..4].copy_from_slice(&[0x30, 0x39, (port >> 8) as u8, port as u8]);
    upper[12] = 0x50;
    upper
}

fn load(source: &str) -> Policy {
    Policy::load("test.lua", source, &Options::default()).expect("it loads")
}

/// One question's verdict.
fn decide(policy: &mut Policy, asked: &Asked) -> Verdict {
    let mut verdicts = Vec::new();
    policy.decide(&[asked.question(7)], &mut verdicts).expect("it decides");
    assert_eq!(verdicts.len(), 1);
    assert_eq!(verdicts[0].id, 7);
    verdicts[0]
}

/// A program's decision, with the cookie that it begins with.
fn program(index: u8, expire_s: u32, words: &[u32]) -> Option<ggu::Verdict> {
    let mut cookie = [0; 64];
    for (bytes, word) in cookie.chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    Some(ggu::Verdict::Program { expire_s, index, cookie })
}

#[test]
fn a_usual_policy_decides_as_the_specification_says() {
    let mut policy = load(STOCK);
    let declined = |s| (false, program(1, s, &[]));
    let fast = (true, program(0, 600, &[2048, 540_000, 3000]));
    let plain = (true, program(0, 300, &[1024, 240_000, 3000]));
    let mut fragment = asked("8.8.8.8", 17, 64, &to_port(80));
    fragment.facts.frag = true;
    let cases = [
        (asked("10.1.2.3", 6, 64, &to_port(80)), declined(60)),
        (asked("fe80::1", 6, 64, &to_port(80)), declined(60)),
        (asked("8.8.8.8", 6, 64, &to_port(80)), fast),
        (asked("8.8.8.8", 17, 64, &to_port(80)), fast),
        (asked("2600::8", 6, 64, &to_port(80)), fast),
        (asked("8.8.8.8", 6, 64, &to_port(443)), plain),
        (asked("8.8.8.8", 17, 64, &to_port(53)), plain),
        (asked("8.8.8.8", 6, 64, &to_port(80)[..19]), declined(10)),
        (asked("8.8.8.8", 17, 64, &to_port(80)[..7]), declined(10)),
        (asked("8.8.8.8", 1, 64, &[8, 0, 0, 0]), declined(10)),
        (asked("8.8.8.8", 1, 15, &[8, 0, 0, 0, 0, 0, 0, 1]), declined(60)),
        (asked("8.8.8.8", 1, 16, &[8, 0, 0, 0, 0, 0, 0, 1]), plain),
        (asked("8.8.8.8", 47, 64, &[]), plain),
        (fragment, declined(10)),
    ];
    for (asked, (forward, decision)) in &cases {
        let verdict = decide(&mut policy, asked);
        assert_eq!((verdict.forward, verdict.decision), (*forward, *decision), "{asked:?}");
    }
    // A batch says the same, however long it is.
    for len in [1, 2, 15, 16, 17, 63, 64, 65, 200] {
        let questions: Vec<_> =
            (0..len).map(|i| cases[i as usize % cases.len()].0.question(i)).collect();
        let mut verdicts = Vec::new();
        policy.decide(&questions, &mut verdicts).expect("it decides");
        assert_eq!(verdicts.len(), len as usize);
        for (i, verdict) in verdicts.iter().enumerate() {
            let (forward, decision) = cases[i % cases.len()].1;
            assert_eq!(*verdict, Verdict { id: i as u32, forward, decision });
        }
    }
}

#[test]
fn fragments_are_punished_by_the_policy_or_for_ten_minutes() {
    let flow = asked("8.8.8.8", 17, 64, &to_port(80));
    let ten_minutes = Some(ggu::Verdict::Declined { expire_s: 600 });
    for (punish, expected, fails) in [
        (
            "function lookup_frag_punish_policy(p) p.state = 2 p.params.declined.expire_sec = 5 end",
            Some(ggu::Verdict::Declined { expire_s: 5 }),
            false,
        ),
        ("", ten_minutes, false),
        ("function lookup_frag_punish_policy(p) error 'no' end", ten_minutes, true),
        ("function lookup_frag_punish_policy(p) p.state = 9 end", ten_minutes, true),
        ("function lookup_frag_punish_policy(p) end", None, false),
    ] {
        let mut policy = load(&format!("{punish}\nfunction lookup_policy(i, p) return true end"));
        let mut question = flow.question(1);
        question.matter = Matter::Punish;
        let mut verdicts = Vec::new();
        // Between packets, too.
        let result = policy.decide(&[flow.question(0), question, flow.question(2)], &mut verdicts);
        assert_eq!(result.is_err(), fails, "{punish}");
        let expected = Verdict { id: 1, forward: false, decision: expected };
        assert_eq!(verdicts[1], expected, "{punish}");
        let go = |id| Verdict { id, forward: true, decision: None };
        assert_eq!((verdicts[0], verdicts[2]), (go(0), go(2)));
    }
}

#[test]
fn a_chunk_runs_in_the_policys_state() {
    let mut policy =
        load("count = 0 function lookup_policy(i, p) count = count + 1 return true end");
    decide(&mut policy, &asked("8.8.8.8", 6, 64, &to_port(80)));
    assert_eq!(policy.exec("return count, nil, 'a'"), Ok("1\tnil\ta".into()));
    assert_eq!(policy.exec("count = 5"), Ok(String::new()));
    assert_eq!(policy.exec("return count"), Ok("5".into()));
    let error = policy.exec("local x = nil\nreturn x.y").expect_err("an index of nil");
    assert!(error.to_string().starts_with("exec:2: attempt to index"), "{error}");
    let error = policy.exec("return return").expect_err("no Lua");
    assert!(error.to_string().starts_with("exec:1:"), "{error}");
    // It may give the policy another function; one that is taken away is an error.
    policy.exec("function lookup_policy() return false end").expect("it runs");
    assert!(!decide(&mut policy, &asked("8.8.8.8", 6, 64, &to_port(80))).forward);
}

#[test]
fn what_is_no_policy_is_refused_with_its_line() {
    let refused = |source| Policy::load("web.lua", source, &Options::default()).err();
    let message = |source| refused(source).expect("it is refused").to_string();
    assert!(message("\n\nfunction (").starts_with("web.lua:3:"));
    assert!(message("local a\n\na.b = 1").starts_with("web.lua:3: attempt to index"));
    assert_eq!(
        message("x = 1"),
        "web.lua defines no function lookup_policy, nor lookup_policy_batch"
    );
    assert!(message("\u{1b}LJ\u{2}").contains("attempt to load chunk with wrong mode"));
    let options =
        Options { engine4: ("nonsense".into(), Default::default()), ..Options::default() };
    let error = Policy::load("web.lua", STOCK, &options).err();
    assert_eq!(error, Some(Error::Engine { what: "no engine nonsense for ipv4".into() }));
}

//! The examples to start from: each decides as its list says, and a packet takes every way.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use super::*;
use crate::trial::{Request, Words};

/// A packet of its own flow: what it is, and its frame.
struct Traffic(Vec<(&'static str, Vec<u8>)>);

impl Traffic {
    /// From `src` to the example's address.
    fn add(&mut self, what: &'static str, src: &str, proto: u8, upper: &[u8]) {
        let asked = super::asked(src, proto, 64, upper);
        let inner = &asked.frame[34..];
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        frame.extend(if inner[0] >> 4 == 4 { [0x08, 0] } else { [0x86, 0xdd] });
        frame.extend(inner);
        self.0.push((what, frame));
    }

    /// A capture, as `tcpdump` writes it.
    fn pcap(&self) -> Vec<u8> {
        let mut file = Vec::new();
        for word in [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65_535, 1u32] {
            file.extend(word.to_le_bytes());
        }
        for (second, (_, frame)) in (1_700_000_000u32..).zip(&self.0) {
            for word in [second, 0, frame.len() as u32, frame.len() as u32] {
                file.extend(word.to_le_bytes());
            }
            file.extend(frame);
        }
        file
    }
}

fn web() -> Traffic {
    let mut traffic = Traffic(Vec::new());
    let echo = [8, 0, 0, 0, 0, 1, 0, 1];
    traffic.add("a source of nobody", "10.9.8.7", 6, &to_port(443));
    traffic.add("a source of nobody", "fe80::9", 6, &to_port(443));
    traffic.add("HTTP", "192.0.2.1", 6, &to_port(80));
    traffic.add("HTTPS", "192.0.2.2", 6, &to_port(443));
    traffic.add("HTTPS by IPv6", "2600::2", 6, &to_port(443));
    traffic.add("SSH", "192.0.2.3", 6, &to_port(22));
    traffic.add("half a TCP header", "192.0.2.4", 6, &to_port(443)[..10]);
    traffic.add("QUIC", "192.0.2.5", 17, &to_port(443));
    traffic.add("DNS", "192.0.2.6", 17, &to_port(53));
    traffic.add("half a UDP header", "192.0.2.7", 17, &to_port(443)[..4]);
    traffic.add("a ping", "192.0.2.8", 1, &echo);
    traffic.add("a ping by IPv6", "2600::8", 58, &[128, 0, 0, 0, 0, 1, 0, 1]);
    traffic.add("half a ping", "192.0.2.9", 1, &echo[..4]);
    traffic.add("an echo's answer", "192.0.2.10", 1, &[0; 8]);
    traffic.add("GRE", "192.0.2.11", 47, &[0; 8]);
    traffic.add("a fragment", "192.0.2.12", 17, &to_port(443));
    fragment(&mut traffic);
    traffic
}

fn dns() -> Traffic {
    let mut traffic = Traffic(Vec::new());
    let message = |port, flags| {
        let mut upper = [0; 28];
        upper[..4].copy_from_slice(&to_port(port)[..4]);
        upper[10] = flags;
        upper
    };
    traffic.add("a known resolver's query", "192.0.2.1", 17, &message(53, 1));
    traffic.add("a stranger's query", "192.0.2.129", 17, &message(53, 1));
    traffic.add("a query by IPv6", "2600::1", 17, &message(53, 1));
    traffic.add("an answer, reflected", "192.0.2.2", 17, &message(53, 0x81));
    traffic.add("a notify", "192.0.2.3", 17, &message(53, 4 << 3));
    traffic.add("half a query", "192.0.2.4", 17, &message(53, 1)[..12]);
    traffic.add("another port", "192.0.2.5", 17, &message(123, 1));
    traffic.add("a query over TCP", "192.0.2.6", 6, &to_port(53));
    traffic.add("half a TCP header", "192.0.2.7", 6, &to_port(53)[..10]);
    traffic.add("HTTPS", "192.0.2.8", 6, &to_port(443));
    traffic.add("a ping", "192.0.2.9", 1, &[8, 0, 0, 0, 0, 1, 0, 1]);
    traffic.add("a fragment", "192.0.2.10", 17, &message(53, 1));
    fragment(&mut traffic);
    traffic
}

/// The last packet is the first part of a longer one.
fn fragment(traffic: &mut Traffic) {
    let (_, frame) = traffic.0.last_mut().expect("there is one");
    frame[14 + 6] = 0x20;
}

fn examples() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/policies"))
}

/// Compares with a file of the repository; `RUTTER_GOLDEN=write` writes it.
fn golden(name: &str, is: &[u8]) {
    let path = examples().join(name);
    if std::env::var_os("RUTTER_GOLDEN").is_some() {
        std::fs::write(&path, is).expect("the repository can be written");
    }
    let want = std::fs::read(&path).expect("a file of the repository");
    assert!(
        is == want,
        "{name} changed: RUTTER_GOLDEN=write cargo test -p policy examples, and review"
    );
}

/// Lines with a verdict that no packet reaches.
fn missed(source: &str, reached: &str) -> Vec<String> {
    let reached: BTreeSet<usize> =
        reached.split(' ').filter_map(|line| line.parse().ok()).collect();
    let verdict = |line: &str| line.contains("return policylib.decision");
    let lines = source.lines().zip(1..).filter(|&(line, n)| verdict(line) && !reached.contains(&n));
    lines.map(|(line, n)| format!("{n}: {line}")).collect()
}

#[test]
fn each_decides_as_its_list_says_and_every_way_is_taken() {
    for (name, traffic) in [("web", web()), ("dns", dns())] {
        let source =
            std::fs::read_to_string(examples().join(format!("{name}.lua"))).expect("it is there");
        let resolvers = std::fs::read(examples().join("resolvers.txt")).expect("it is there");
        let mut options = Options::default();
        options.files.insert("resolvers".into(), Arc::from(resolvers));
        let mut policy = Policy::load(&format!("{name}.lua"), &source, &options).expect(name);
        policy
            .exec(
                "lines = {} jit.off()
            debug.sethook(function(_, line)
                if debug.getinfo(2, 'S').source ~= '=driver' then lines[line] = true end
            end, 'l')",
            )
            .expect("it runs");
        let mut list = String::new();
        for (what, frame) in &traffic.0 {
            let request = Request::of(frame).expect(what);
            let mut verdicts = Vec::new();
            policy.decide(&[request.question(0)], &mut verdicts).expect(what);
            let (src, dst) = request.flow.ends();
            let forward = if verdicts[0].forward { "forward" } else { "drop" };
            let decision = verdicts[0].decision.expect("each flow is decided");
            writeln!(list, "{src} > {dst}  {forward}  {}  # {what}", Words(&decision))
                .expect("a string");
        }
        let mut punish = Request::of(&traffic.0[0].1).expect("a packet").facts;
        punish.frag = true;
        let question = Question { id: 0, matter: Matter::Punish, facts: punish, bytes: &[] };
        policy.decide(&[question], &mut Vec::new()).expect("it punishes");
        let reached = policy
            .exec(
                "local t = {} for line in pairs(lines) do t[#t + 1] = line end
            return table.concat(t, ' ')",
            )
            .expect("it runs");
        assert_eq!(missed(&source, &reached), [""; 0], "{name}");
        golden(&format!("{name}.verdicts"), list.as_bytes());
        golden(&format!("{name}.pcap"), &traffic.pcap());
    }
}

//! The examples to start from: each decides as its list says, and a packet takes every way.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::path::PathBuf;
use std::sync::Arc;

use wire::build::Frame;
use wire::tcp::SYN;
use wire::{ethernet, icmp, protocol};

use super::*;
use crate::trial::{Request, Words};

/// Packets as hosts send them, each of a flow of its own: what it is, and its frame.
struct Traffic(Vec<(&'static str, Vec<u8>)>);

impl Traffic {
    fn add(&mut self, what: &'static str, frame: Frame<'_>) {
        self.0.push((what, frame.pad_to(ethernet::MIN_FRAME).build().to_vec()));
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
    let echo = icmp::Header::echo(icmp::ECHO_REPLY, 7, 1);
    traffic.add("a source of nobody", tcp("10.9.8.7", 443));
    traffic.add("a source of nobody", tcp6("fc00::9", 443));
    traffic.add("HTTP", tcp("192.0.2.1", 80));
    traffic.add("HTTPS", tcp("192.0.2.2", 443));
    traffic.add("HTTPS by IPv6", tcp6("2600::2", 443));
    traffic.add("SSH", tcp("192.0.2.3", 22));
    traffic.add("half a TCP header", half("192.0.2.4", protocol::TCP));
    traffic.add("QUIC", udp("192.0.2.5", 443).payload(&[0xc0; 1200]));
    traffic.add("DNS", udp("192.0.2.6", 53).payload(&query(1)));
    traffic
        .add("half a UDP header", half("192.0.2.7", protocol::UDP).payload(&[0x30, 0x39, 1, 0xbb]));
    traffic.add("a ping", Frame::icmp4_echo(ip("192.0.2.8"), HOST, 7, 1).payload(&[8; 56]));
    traffic
        .add("a ping by IPv6", Frame::icmp6_echo(ip6("2600::8"), HOST_6, 7, 1).payload(&[8; 56]));
    traffic.add("half a ping", half("192.0.2.9", protocol::ICMP).payload(&[8, 0, 0xf7, 0xff]));
    traffic.add("an echo's answer", Frame::icmp4(ip("192.0.2.10"), HOST, echo).payload(&[8; 56]));
    traffic.add("GRE", half("192.0.2.11", protocol::GRE).payload(&[0; 44]));
    traffic.add("a fragment", udp("192.0.2.12", 443).payload(&[0xc0; 1472]).fragment(3, 0, true));
    traffic
}

fn dns() -> Traffic {
    let mut traffic = Traffic(Vec::new());
    traffic.add("a known resolver's query", udp("192.0.2.1", 53).payload(&query(1)));
    traffic.add("a stranger's query", udp("192.0.2.129", 53).payload(&query(1)));
    let (src, dst) =
        (SocketAddrV6::new(ip6("2600::1"), FROM, 0, 0), SocketAddrV6::new(HOST_6, 53, 0, 0));
    traffic.add("a query by IPv6", Frame::udp6(src, dst).payload(&query(1)));
    traffic.add("an answer, reflected", udp("192.0.2.2", 53).payload(&query(0x81)));
    traffic.add("a notify", udp("192.0.2.3", 53).payload(&query(4 << 3)));
    traffic.add("half a query", udp("192.0.2.4", 53).payload(&query(1)[..4]));
    traffic.add("another port", udp("192.0.2.5", 123).payload(&[0x23; 48]));
    traffic.add("a query over TCP", tcp("192.0.2.6", 53));
    traffic.add("half a TCP header", half("192.0.2.7", protocol::TCP));
    traffic.add("HTTPS", tcp("192.0.2.8", 443));
    traffic.add("a ping", Frame::icmp4_echo(ip("192.0.2.9"), HOST, 7, 1).payload(&[8; 56]));
    traffic.add("a fragment", udp("192.0.2.10", 53).payload(&[0; 1472]).fragment(3, 0, true));
    traffic
}

/// Opens a connection.
fn tcp(src: &str, port: u16) -> Frame<'static> {
    Frame::tcp4(SocketAddrV4::new(ip(src), FROM), SocketAddrV4::new(HOST, port), SYN)
}

fn tcp6(src: &str, port: u16) -> Frame<'static> {
    Frame::tcp6(SocketAddrV6::new(ip6(src), FROM, 0, 0), SocketAddrV6::new(HOST_6, port, 0, 0), SYN)
}

fn udp(src: &str, port: u16) -> Frame<'static> {
    Frame::udp4(SocketAddrV4::new(ip(src), FROM), SocketAddrV4::new(HOST, port))
}

/// A packet that ends inside its upper header: ports and a sequence number, without a payload set.
fn half(src: &str, protocol: u8) -> Frame<'static> {
    Frame::ipv4(ip(src), HOST, protocol).payload(&[0x30, 0x39, 1, 0xbb, 0, 0, 0, 1, 0, 0])
}

/// A DNS message about `example.com`, its flags beginning with `flags`.
fn query(flags: u8) -> Vec<u8> {
    let mut message = vec![0x12, 0x34, flags, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    message.extend(b"\x07example\x03com\0\0\x01\0\x01");
    message
}

fn ip(text: &str) -> Ipv4Addr {
    text.parse().expect("an address")
}

fn ip6(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

const HOST: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 5);
const HOST_6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 5);
/// The senders' port.
const FROM: u16 = 12_345;

fn examples() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/policies"))
}

fn source(name: &str) -> String {
    std::fs::read_to_string(examples().join(format!("{name}.lua"))).expect("it is there")
}

/// An example, with its file of resolvers.
fn load(name: &str) -> Policy {
    let resolvers = std::fs::read(examples().join("resolvers.txt")).expect("it is there");
    let mut options = Options::default();
    options.files.insert("resolvers".into(), Bytes::new(Arc::new(resolvers)));
    Policy::load(&format!("{name}.lua"), &source(name), &options).expect(name)
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

/// Lines that return and that no packet reaches. A line is seen as a whole: one that also decides
/// whether it returns is never right.
fn missed(source: &str, reached: &str) -> Vec<String> {
    let reached: BTreeSet<usize> =
        reached.split(' ').filter_map(|line| line.parse().ok()).collect();
    let lines = source.lines().zip(1..).filter(|&(line, n)| {
        let code = line.split("--").next().unwrap_or_default();
        let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.any(|word| word == "return") && (code.contains(" then ") || !reached.contains(&n))
    });
    lines.map(|(line, n)| format!("{n}: {line}")).collect()
}

#[test]
fn each_decides_as_its_list_says_and_every_way_is_taken() {
    for (name, traffic) in [("web", web()), ("dns", dns())] {
        let source = source(name);
        let mut policy = load(name);
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
            let (_, line) = decided(&mut policy, frame);
            writeln!(list, "{line}  # {what}").expect("a string");
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

/// Flow and verdict of a packet, in words.
fn decided(policy: &mut Policy, frame: &[u8]) -> (String, String) {
    let request = Request::of(frame).expect("a packet that a Grantor asks about");
    let mut verdicts = Vec::new();
    policy.decide(&[request.question(0)], &mut verdicts).expect("it decides");
    let (src, dst) = request.flow.ends();
    let forward = if verdicts[0].forward { "forward" } else { "drop" };
    let decision = verdicts[0].decision.expect("each flow is decided");
    let flow = format!("{src} > {dst}");
    let line = format!("{flow}  {forward}  {}", Words(&decision));
    (flow, line)
}

/// What `tcpdump` saw of real clients. Of the web service: curl by HTTP and HTTPS, ping (once with
/// fragments), traceroute, connections to other ports, a query, a datagram to QUIC's port. Of the
/// DNS server: dig by UDP, TCP, IPv6, with a notify and with a query in fragments, an answer that
/// it had asked for, half a query, NTP, curl, ping.
#[test]
fn real_clients_are_decided_as_the_lists_say() {
    let read = |name: &str| std::fs::read(examples().join(name)).expect("it is there");
    for name in ["web", "dns"] {
        let mut policy = load(name);
        let capture = read(&format!("{name}-clients.pcap"));
        let (mut list, mut seen, mut rest) = (String::new(), BTreeSet::new(), &capture[24..]);
        while !rest.is_empty() {
            let len = u32::from_le_bytes(rest[8..12].try_into().expect("four bytes")) as usize;
            let (flow, line) = decided(&mut policy, &rest[16..16 + len]);
            if seen.insert(flow) {
                writeln!(list, "{line}").expect("a string");
            }
            rest = &rest[16 + len..];
        }
        golden(&format!("{name}-clients.verdicts"), list.as_bytes());
    }
}

/// The same queries, without the file of known resolvers.
#[test]
fn without_its_file_dns_knows_no_resolver() {
    let mut policy =
        Policy::load("dns.lua", &source("dns"), &Options::default()).expect("it loads");
    let traffic = dns();
    let mut decide = |at: usize| {
        let (what, frame) = &traffic.0[at];
        let mut verdicts = Vec::new();
        let request = Request::of(frame).expect(what);
        policy.decide(&[request.question(0)], &mut verdicts).expect(what);
        (verdicts[0].forward, verdicts[0].decision)
    };
    let [known, stranger] = [0, 1].map(&mut decide);
    assert_eq!(known, stranger);
    assert!(stranger.0 && stranger.1.is_some());
}

//! What a policy sees of a packet.

use super::*;

/// Runs `text` as the body of `lookup_policy(i, p)`, and gives what it leaves in `seen`.
fn see(text: &str, asked: &Asked, options: &Options) -> String {
    let source = format!(
        "local ffi = require 'ffi' local c = require 'gatekeeper/policylib'.c
        function lookup_policy(i, p) {text} end"
    );
    let mut policy = Policy::load("test.lua", &source, options).expect("it loads");
    decide(&mut policy, asked);
    policy.exec("return seen").expect("it runs")
}

#[test]
fn structures_have_the_offsets_of_the_deployed_system() {
    let mut policy = load("function lookup_policy() end");
    let cases = [
        (
            "gt_packet_headers",
            56,
            "outer_ethertype 0 inner_ip_ver 2 l4_proto 4 priority 5 outer_ecn 6 \
            upper_len 8 l2_hdr 16 outer_l3_hdr 24 inner_l3_hdr 32 l4_hdr 40 frag 48",
        ),
        ("ggu_policy", 112, "state 0 flow 4 params 40"),
        ("ip_flow", 36, "proto 0 f 4"),
        (
            "ggu_granted",
            16,
            "tx_rate_kib_sec 0 cap_expire_sec 4 next_renewal_ms 8 renewal_step_ms 12",
        ),
        ("ggu_declined", 4, "expire_sec 0"),
        ("ggu_bpf", 72, "expire_sec 0 program_index 4 reserved 5 cookie_len 6 cookie 8"),
        ("gk_bpf_cookie", 64, "mem 0"),
        ("granted_params", 12, "tx_rate_kib_sec 0 next_renewal_ms 4 renewal_step_ms 8"),
        (
            "grantedv2_params",
            17,
            "tx1_rate_kib_sec 0 tx2_rate_kib_sec 4 next_renewal_ms 8 \
            renewal_step_ms 12 direct_if_possible 16",
        ),
        ("tcpsrv_params", 36, "tx1_rate_kib_sec 0 next_renewal_ms 4 renewal_step_ms 8 ports 12"),
        ("tcpsrv_ports", 24, "p 0"),
        ("in_addr", 4, "s_addr 0"),
        ("in6_addr", 16, "s6_addr 0"),
    ];
    let headers = [
        (
            "ipv4_hdr",
            20,
            "version_ihl 0 total_length 2 packet_id 4 fragment_offset 6 time_to_live 8 \
            next_proto_id 9 hdr_checksum 10 src_addr 12 dst_addr 16",
        ),
        ("ipv6_hdr", 40, "vtc_flow 0 payload_len 4 proto 6 hop_limits 7 src_addr 8 dst_addr 24"),
        (
            "tcp_hdr",
            20,
            "src_port 0 dst_port 2 sent_seq 4 recv_ack 8 data_off 12 tcp_flags 13 rx_win 14 \
            cksum 16 tcp_urp 18",
        ),
        ("udp_hdr", 8, "src_port 0 dst_port 2 dgram_len 4 dgram_cksum 6"),
        ("icmp_hdr", 8, "icmp_type 0 icmp_code 1 icmp_cksum 2 icmp_ident 4 icmp_seq_nb 6"),
        ("icmpv6_hdr", 4, "icmpv6_type 0 icmpv6_code 1 icmpv6_cksum 2"),
    ];
    let rte = headers.map(|(name, size, fields)| (format!("rte_{name}"), size, fields));
    let all = cases
        .into_iter()
        .chain(headers)
        .map(|(name, size, fields)| (name.to_owned(), size, fields));
    for (name, size, fields) in all.chain(rte) {
        let sizeof = policy.exec(&format!("return require 'ffi'.sizeof 'struct {name}'"));
        assert_eq!(sizeof, Ok(size.to_string()), "{name}");
        for pair in fields.split_whitespace().collect::<Vec<_>>().chunks(2) {
            let offset = policy
                .exec(&format!("return (require 'ffi'.offsetof('struct {name}', '{}'))", pair[0]));
            assert_eq!(offset.as_deref(), Ok(pair[1]), "{name}.{}", pair[0]);
        }
    }
}

#[test]
fn a_policy_sees_what_the_worker_found_out() {
    let mut packet = asked("8.8.4.4", 6, 57, &to_port(443));
    let see = |text: &str, packet: &Asked| see(text, packet, &Options::default());
    let facts = "seen = table.concat({ i.outer_ethertype, i.inner_ip_ver, i.l4_proto, i.priority, \
        i.outer_ecn, i.upper_len, tostring(i.frag) }, ' ')";
    assert_eq!(see(facts, &packet), "2048 2048 6 41 2 20 false");
    let places = "local at = function(p) return tonumber(ffi.cast('char *', p) - ffi.cast('char *', i.l2_hdr)) end \
        seen = table.concat({ at(i.outer_l3_hdr), at(i.inner_l3_hdr), at(i.l4_hdr) }, ' ')";
    assert_eq!(see(places, &packet), "14 34 54");
    let headers = "local ip = ffi.cast('struct rte_ipv4_hdr *', i.inner_l3_hdr) \
        local tcp = ffi.cast('struct tcp_hdr *', i.l4_hdr) \
        seen = table.concat({ ip.time_to_live, c.gt_be_to_cpu_32(ip.src_addr), c.gt_be_to_cpu_16(tcp.dst_port), \
        ffi.cast('struct ipv4_hdr *', i.outer_l3_hdr).next_proto_id }, ' ')";
    assert_eq!(see(headers, &packet), format!("57 {} 443 4", 0x0808_0404));
    let flow = "seen = table.concat({ p.state, p.flow.proto, c.gt_be_to_cpu_32(p.flow.f.v4.src), \
        c.gt_be_to_cpu_32(p.flow.f.v4.dst), p.params.bpf.cookie_len }, ' ')";
    assert_eq!(see(flow, &packet), format!("0 2048 {} {} 0", 0x0808_0404, 0xcb00_7105u32));
    packet.facts.frag = true;
    assert_eq!(see("seen = i.frag", &packet), "true");
    let packet = asked("2600::8", 17, 64, &to_port(53));
    let flow = "seen = p.flow.proto .. ' ' .. lpmlib.ip6_mask_addr(p.flow.f.v6.src, 128) .. ' ' \
        .. lpmlib.ip6_mask_addr(p.flow.f.v6.dst, 128)";
    assert_eq!(see(flow, &packet), format!("{} 2600::8 2001:db8::5", 0x86dd));
}

/// Zeros follow what is there, and no bytes of another packet do.
#[test]
fn what_is_not_there_is_zero_and_lengths_say_so() {
    let long = asked("8.8.8.8", 17, 64, &[0xaa; 200]);
    let source = "local ffi = require 'ffi'
        function lookup_policy(i, p)
            local bytes, sum = ffi.cast('uint8_t *', i.l4_hdr), 0
            for at = i.upper_len, i.upper_len + 63 do sum = sum + bytes[at] end
            seen = i.upper_len .. ' ' .. sum
        end";
    let options = Options { snap: 100, ..Options::default() };
    let mut policy = Policy::load("test.lua", source, &options).expect("it loads");
    decide(&mut policy, &long);
    assert_eq!(policy.exec("return seen").as_deref(), Ok("46 0"), "cut by `snap`");
    let short = asked("8.8.8.8", 17, 64, &[0xbb; 4]);
    decide(&mut policy, &short);
    assert_eq!(policy.exec("return seen").as_deref(), Ok("4 0"));
    // A worker's offsets that point behind the frame lead to its end.
    let mut wrong = short;
    (wrong.facts.outer_l3, wrong.facts.inner_l3, wrong.facts.l4) = (u16::MAX, 60_000, 59);
    wrong.facts.upper_len = u16::MAX;
    decide(&mut policy, &wrong);
    assert_eq!(policy.exec("return seen").as_deref(), Ok("0 0"));
    for cut in 0..wrong.frame.len() {
        wrong.frame.truncate(wrong.frame.len() - 1);
        decide(&mut policy, &wrong);
        assert_eq!(policy.exec("return seen").as_deref(), Ok("0 0"), "{cut}");
    }
}

#[test]
fn a_policy_may_decide_of_many_at_once() {
    let source = "local lib = require 'gatekeeper/policylib'
        calls = 0
        function lookup_policy_batch(n)
            calls = calls + 1
            for i = 0, n - 1 do
                if lib.packets[i].l4_proto == 99 then error 'ninety-nine' end
                lib.forward[i] = lib.decision_granted(lib.policies[i], lib.packets[i].l4_proto, 1, 2, 3)
            end
        end";
    let packets: Vec<_> = (0..100).map(|proto| asked("8.8.8.8", proto, 64, &[])).collect();
    let questions: Vec<_> =
        packets.iter().zip(0..).map(|(packet, id)| packet.question(id)).collect();
    let mut policy = load(source);
    let mut verdicts = Vec::new();
    assert_eq!(policy.decide(&questions[..99], &mut verdicts), Ok(()));
    assert_eq!(policy.exec("return calls").as_deref(), Ok("2"));
    for (i, verdict) in verdicts.iter().enumerate() {
        let decision = program(0, 1, &[i as u32, 2, 3]);
        assert_eq!(*verdict, Verdict { id: i as u32, forward: true, decision });
    }
    // An error is that packet's alone.
    verdicts.clear();
    let error = policy.decide(&questions[64..], &mut verdicts).expect_err("it throws").to_string();
    assert!(error.starts_with("test.lua:6: ninety-nine"), "{error}");
    assert_eq!((verdicts.len(), policy.failed()), (36, &[99][..]));
    assert!(verdicts[..35].iter().all(|verdict| verdict.forward && verdict.decision.is_some()));
    assert!(!verdicts[35].forward && verdicts[35].decision.is_none());
    // Packets beside a matter for which there is no batch.
    let punish = Question { matter: Matter::Punish, ..questions[10] };
    verdicts.clear();
    let mixed = [questions[1], punish, questions[99], questions[2]];
    assert!(policy.decide(&mixed, &mut verdicts).is_err());
    let forward: Vec<_> = verdicts.iter().map(|verdict| (verdict.id, verdict.forward)).collect();
    assert_eq!(forward, [(1, true), (10, false), (99, false), (2, true)]);
    assert_eq!(verdicts[1].decision, Some(wire::ggu::Verdict::Declined { expire_s: 600 }));
    let single =
        "function lookup_policy(i, p) if i.l4_proto == 99 then error 'me' end return true end";
    let mut policy = load(&format!("{source}\n{single}"));
    verdicts.clear();
    let error = policy.decide(&questions[64..], &mut verdicts).expect_err("it throws").to_string();
    assert!(error.contains(": me"), "{error}");
    assert_eq!(verdicts.iter().filter(|verdict| verdict.forward).count(), 35);
    assert!(!verdicts[35].forward);
}

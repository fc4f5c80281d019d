//! Every function of `policylib` and `lpmlib`.

use std::sync::Arc;

use super::*;

/// The decision that `call` makes of the policy `p`, and what it returns.
fn decided(call: &str) -> (bool, Option<ggu::Verdict>) {
    let source = format!(
        "local l = require 'gatekeeper/policylib' function lookup_policy(i, p) return l.{call} end"
    );
    let verdict = decide(&mut load(&source), &asked("8.8.8.8", 6, 64, &to_port(80)));
    (verdict.forward, verdict.decision)
}

#[test]
fn decisions_are_those_of_the_specification() {
    let granted =
        ggu::Verdict::Granted { rate_kib: 1, expire_s: 2, next_renewal_ms: 3, renewal_step_ms: 4 };
    let mut direct = [0; 64];
    direct[..17].copy_from_slice(&[9, 0, 0, 0, 8, 0, 0, 0, 6, 0, 0, 0, 5, 0, 0, 0, 1]);
    let direct = Some(ggu::Verdict::Program { expire_s: 7, index: 77, cookie: direct });
    // 24 bits of step, 3 listening and 2 remote ports; those ascend from the front, these
    // from the back.
    let words = [1000, 3, 4 | 3 << 24 | 2 << 28, 80 << 16 | 22, 443, 0, 0, 0, 8080 << 16 | 9090];
    let cases = [
        ("decision_granted(p, 1, 2, 3, 4)", (true, program(0, 2, &[1, 3, 4]))),
        (
            "decision_granted(p, 4294967295, 4294967295, 0, 0)",
            (true, program(0, u32::MAX, &[u32::MAX])),
        ),
        ("decision_declined(p, 60)", (false, program(1, 60, &[]))),
        ("decision_granted_nobpf(p, 1, 2, 3, 4)", (true, Some(granted))),
        ("decision_declined_nobpf(p, 60)", (false, Some(ggu::Verdict::Declined { expire_s: 60 }))),
        ("decision_grantedv2(p, 1000, 2, 3, 4)", (true, program(2, 2, &[1000, 50, 3, 4]))),
        ("decision_web(p, 1010, 2, 3, 4)", (true, program(3, 2, &[1010, 50, 3, 4]))),
        ("decision_grantedv2_will_full_params(77, p, 9, 8, 7, 6, 5, true)", (true, direct)),
        (
            "decision_tcpsrv(p, 1000, 2, 3, 4, l.tcpsrv_ports({ 443, 22, 80, 22 }, { 8080, 9090, 8080 }))",
            (true, program(4, 2, &words)),
        ),
        (
            "decision_tcpsrv(p, 1000, 2, 3, 16777216, l.tcpsrv_ports({}, {}))",
            (true, program(4, 2, &[1000, 3, 0xff_ffff])),
        ),
        // The later one counts.
        (
            "decision_granted(p, 1, 2, 3, 4) and l.decision_declined(p, 60)",
            (false, program(1, 60, &[])),
        ),
    ];
    for (call, expected) in cases {
        assert_eq!(decided(call), expected, "{call}");
    }
}

/// The values of expressions, in words.
fn values(policy: &mut Policy, cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let chunk =
            format!("local ffi, l = require 'ffi', require 'gatekeeper/policylib' return {text}");
        assert_eq!(policy.exec(&chunk).as_deref(), Ok(*expected), "{text}");
    }
}

#[test]
fn helpers_are_right_in_both_byte_orders() {
    let (n16, n32) = (0x1234u16.to_be(), 0x89ab_cdefu32.to_be());
    let options = Options { worker: 3, ..Options::default() };
    let mut policy = Policy::load("test.lua", STOCK, &options).expect("it loads");
    let (n16, n32) = (n16.to_string(), n32.to_string());
    values(
        &mut policy,
        &[
            ("l.c.gt_cpu_to_be_16(0x1234)", &n16),
            ("l.c.gt_be_to_cpu_16(l.c.gt_cpu_to_be_16(0x1234))", "4660"),
            ("l.c.gt_cpu_to_be_32(0x89abcdef)", &n32),
            ("l.c.gt_be_to_cpu_32(l.c.gt_cpu_to_be_32(0x89abcdef))", "2309737967"),
            ("l.gt_cpu_to_be_16(0x1234) == l.c.gt_cpu_to_be_16(0x1234)", "true"),
            ("l.c.gt_cpu_to_le_16(0x1234) + l.c.gt_cpu_to_be_16(0x1234)", "17990"),
            ("l.c.gt_le_to_cpu_32(l.c.gt_cpu_to_le_32(0x89abcdef))", "2309737967"),
            ("l.c.gt_lcore_id()", "3"),
            (
                "l.c.IPV4, l.c.IPV6, l.c.TCP, l.c.UDP, l.c.ICMP, l.c.ICMPV6",
                "2048\t34525\t6\t17\t1\t58",
            ),
            ("l.c.REQUEST, l.c.GRANTED, l.c.DECLINED, l.c.BPF", "0\t1\t2\t3"),
            (
                "l.ipv6_addrs_equal(lpmlib.str_to_prefix6 '::1/128', lpmlib.str_to_prefix6 '::1/64')",
                "true",
            ),
            (
                "l.ipv6_addrs_equal(lpmlib.str_to_prefix6 '::1/128', lpmlib.str_to_prefix6 '1::1/64')",
                "false",
            ),
            (
                "pcall(l.tcpsrv_ports, { 1, 2, 3, 4, 5, 6, 7 }, { 1, 2, 3, 4, 5, 6 })",
                "false\t7 listening and 6 remote ports are more than 12",
            ),
            (
                "pcall(l.tcpsrv_ports, { 65536 })",
                "false\tlistening port 65536 is no number from 0 to 65535",
            ),
        ],
    );
}

#[test]
fn tables_answer_as_prefixes_do() {
    let mut policy = load(STOCK);
    policy
        .exec(
            "function ip(text) return (lpmlib.str_to_prefix(text .. '/32')) end
        function ip6(text) return (lpmlib.str_to_prefix6(text .. '/128')) end
        t, t6 = lpmlib.new_lpm(3, 7), lpmlib.new_lpm6(3, 8)",
        )
        .expect("it runs");
    let network = u32::from_ne_bytes([10, 1, 0, 0]).to_string();
    values(
        &mut policy,
        &[
            ("lpmlib.str_to_prefix '10.1.0.0/16'", &format!("{network}\t16")),
            ("pcall(lpmlib.str_to_prefix, '10.1.0.0')", "false\t10.1.0.0 is no IPv4 prefix"),
            ("pcall(lpmlib.str_to_prefix, '10.1.0.0/33')", "false\t10.1.0.0/33 is no IPv4 prefix"),
            ("pcall(lpmlib.str_to_prefix, nil)", "false\tnil is no IPv4 prefix"),
            ("pcall(lpmlib.str_to_prefix6, '::/129')", "false\t::/129 is no IPv6 prefix"),
            ("select(2, lpmlib.str_to_prefix6 '2001:db8::/32')", "32"),
            ("lpmlib.ip_mask_addr(ip '10.1.255.255', 17)", "10.1.128.0"),
            ("lpmlib.ip_mask_addr(ip '10.1.255.255', 32)", "10.1.255.255"),
            ("lpmlib.ip_mask_addr(ip '10.1.255.255', 0)", "0.0.0.0"),
            ("lpmlib.ip6_mask_addr(ip6 '2001:db8:ffff::1', 36)", "2001:db8:f000::"),
            ("lpmlib.lpm_get_paras(t)", "3\t7"),
            ("lpmlib.lpm6_get_paras(t6)", "3\t8"),
            ("lpmlib.lpm_lookup(t, ip '10.1.2.3')", "-2"),
            (
                "lpmlib.lpm_add_tbl8s(t, ip '10.1.2.3', 24), lpmlib.lpm_add_tbl8s(t, ip '10.1.2.3', 25)",
                "0\t1",
            ),
            (
                "lpmlib.lpm_add(t, ip '10.0.0.0', 8, 5), lpmlib.lpm_add(t, ip '10.1.2.3', 32, 0)",
                "nil",
            ),
            (
                "lpmlib.lpm_add_tbl8s(t, ip '10.1.2.9', 32), lpmlib.lpm_add_tbl8s(t, ip '10.1.3.9', 32)",
                "0\t1",
            ),
            ("lpmlib.lpm_lookup(t, ip '10.1.2.3'), lpmlib.lpm_lookup(t, ip '10.1.2.4')", "0\t5"),
            (
                "lpmlib.lpm_debug_lookup(t, ip '10.1.2.3'), lpmlib.lpm_debug_lookup(t, ip '11.1.2.4')",
                "0\t0",
            ),
            ("lpmlib.lpm_add(t, 0, 0, 9), lpmlib.lpm_lookup(t, ip '11.1.2.4')", "nil\t9"),
            (
                "pcall(lpmlib.lpm_add, t, ip '12.0.0.0', 8, 1)",
                "false\tlpm_add: 12.0.0.0/8: the table is full",
            ),
            ("lpmlib.lpm_add(t, ip '10.9.9.9', 8, 6)", ""),
            ("lpmlib.lpm_lookup(t, ip '10.1.2.4')", "6"),
            ("lpmlib.lpm_del(t, ip '10.1.2.3', 32), lpmlib.lpm_lookup(t, ip '10.1.2.3')", "0\t6"),
            ("lpmlib.lpm_del(t, ip '10.1.2.3', 32), lpmlib.lpm_del(t, 0, 33)", "-2\t-22"),
            (
                "pcall(lpmlib.lpm_add, t, 0, 33, 1)",
                "false\tlpm_add: 0.0.0.0/33: the table, address, length or label is invalid",
            ),
            (
                "pcall(lpmlib.lpm_add, t, 0, 8, 4294967295)",
                "false\tlpm_add: 0.0.0.0/8: the table, address, length or label is invalid",
            ),
            ("lpmlib.lpm_lookup(nil, 0), lpmlib.lpm_get_paras(nil)", "-22\t-1\t-1"),
            (
                "pcall(lpmlib.lpm_debug_lookup, nil, 0)",
                "false\tlpm_debug_lookup: the table, address, length or label is invalid",
            ),
            ("pcall(lpmlib.lpm6_add_tbl8s, nil, 32, {})", "false\tnil is no address"),
            ("pcall(lpmlib.ip6_mask_addr, nil, 3)", "false\tnil is no address"),
            ("(pcall(lpmlib.lpm_lookup, t6, 0))", "false"),
            ("(pcall(lpmlib.lpm_lookup, 'table', 0))", "false"),
            (
                "lpmlib.lpm6_add(t6, ip6 '2001:db8::', 32, 1), lpmlib.lpm6_add(t6, ip6 '2001:db8::1', 128, 2)",
                "nil",
            ),
            (
                "lpmlib.lpm6_lookup(t6, ip6 '2001:db8::1'), lpmlib.lpm6_lookup(t6, ip6 '2001:db8::2')",
                "2\t1",
            ),
            (
                "lpmlib.lpm6_debug_lookup(t6, ip6 '2001:db8::1'), lpmlib.lpm6_lookup(t6, ip6 '::')",
                "0\t-2",
            ),
            (
                "lpmlib.lpm6_add_tbl8s(t6, ip6 '2001:db8::', 24), lpmlib.lpm6_add_tbl8s(t6, ip6 '3::', 48)",
                "0\t3",
            ),
            ("lpmlib.lpm6_add_tbl8s(t6, ip6 '2001:db8::', 48)", "0"),
            (
                "lpmlib.lpm6_del(t6, ip6 '2001:db8::1', 128), lpmlib.lpm6_lookup(t6, ip6 '2001:db8::1')",
                "0\t1",
            ),
            ("lpmlib.lpm6_lookup(t6, nil)", "-22"),
            (
                "pcall(lpmlib.lpm6_lookup, t6, '2001:db8::1')",
                "false\tan address is not text: see str_to_prefix",
            ),
            (
                "pcall(lpmlib.lpm6_add, lpmlib.new_lpm6(0, 0), ip6 'fc00::', 7, 1)",
                "false\tlpm6_add: fc00::/7: the table is full",
            ),
            ("require 'lpmlib' == lpmlib and require 'gatekeeper/lpmlib' == lpmlib", "true"),
        ],
    );
    // Tables that nobody names go with the collector.
    policy.exec("for i = 1, 1000 do lpmlib.lpm_lookup(lpmlib.new_lpm(1, 1), 0) end t, t6 = nil collectgarbage()")
        .expect("it runs");
}

#[test]
fn each_engine_gives_the_same_answers() {
    use lookup::lpm::Engines;
    let engines = u32::engines().iter().map(|entry| entry.card.name);
    for name in engines {
        let options = Options { engine4: (name.into(), Default::default()), ..Options::default() };
        let source = "function lookup_policy() end
            t = lpmlib.new_lpm(1000, 0)
            for i = 0, 255 do lpmlib.lpm_add(t, i, 8, i) end";
        let mut policy = Policy::load("test.lua", source, &options).expect(name);
        let chunk = "for i = 0, 255 do assert(lpmlib.lpm_lookup(t, i + 65536) == i) end
            lpmlib.lpm_del(t, 7, 8) return lpmlib.lpm_lookup(t, 7), lpmlib.lpm_lookup(t, 8)";
        assert_eq!(policy.exec(chunk).as_deref(), Ok("-2\t8"), "{name}");
    }
}

#[test]
fn a_table_comes_from_a_files_bytes() {
    let mut options = Options::default();
    let mut file = |name: &str, text: &str| {
        options.files.insert(name.into(), Bytes::new(Arc::new(text.as_bytes().to_vec())));
    };
    file("bogons", "10.0.0.0/8\n2001:db8::/32\n192.0.2.0/24\n");
    file("labels", "10.0.0.0/8 7\n11.0.0.0/8 0\n12.0.0.0/8 0\n2001:db8::/32 9\n");
    file("hops", "10.0.0.0/8 192.0.2.1\n11.0.0.0/8 192.0.2.2\n");
    file("damaged", "10.0.0.0/8\nnonsense/9\n");
    let mut policy = Policy::load("test.lua", STOCK, &options).expect("it loads");
    policy.exec("function ip(text) return (lpmlib.str_to_prefix(text .. '/32')) end
        function ip6(text) return (lpmlib.str_to_prefix6(text .. '/128')) end
        function find(file, label, text) return lpmlib.lpm_lookup(lpmlib.lpm_from_file(file, label), ip(text)) end")
        .expect("it runs");
    values(
        &mut policy,
        &[
            (
                "find('bogons', 0, '10.1.1.1'), find('bogons', 0, '11.1.1.1'), find('bogons', 3, '192.0.2.1')",
                "0\t-2\t3",
            ),
            (
                "find('labels', nil, '10.1.1.1'), find('labels', nil, '12.1.1.1'), find('labels', 3, '10.1.1.1')",
                "7\t0\t3",
            ),
            ("find('hops', nil, '10.1.1.1'), find('hops', nil, '11.1.1.1')", "1\t2"),
            ("lpmlib.lpm6_lookup(lpmlib.lpm6_from_file 'labels', ip6 '2001:db8::1')", "9"),
            ("lpmlib.lpm6_lookup(lpmlib.lpm6_from_file 'hops', ip6 '2001:db8::1')", "-2"),
            (
                "pcall(lpmlib.lpm_from_file, 'damaged')",
                "false\tdamaged: 1 lines or records are damaged",
            ),
            (
                "pcall(lpmlib.lpm_from_file, 'absent')",
                "false\tno file absent was given to the policy",
            ),
        ],
    );
}

/// Other formats than plain text: one each of pyasn and MRT, plain and compressed.
#[test]
fn a_file_may_have_any_format_of_tables() {
    let pyasn = b"; IP-ASN32-DAT file\n10.0.0.0/8\t64500\n11.0.0.0/8\t64501\n";
    let mut mrt =
        record(1, &[&[0; 6][..], &[0, 1, 2], &[9; 4], &[192, 0, 2, 9], &[0, 0, 0xfb, 0xf4]]);
    for (net, hop) in [(10, 1), (11, 2)] {
        let path = [0x40, 1, 1, 0, 0x40, 2, 6, 2, 1, 0, 0, 0xfb, 0xf4];
        let next = [0x40, 3, 4, 192, 0, 2, hop];
        let head =
            [0, 0, 0, hop, 8, net, 0, 1, 0, 0, 0, 0, 0, 0, 0, (path.len() + next.len()) as u8];
        mrt.extend(record(2, &[&head, &path, &next]));
    }
    let mut options = Options::default();
    for (name, bytes, labels) in [
        ("pyasn", pyasn.to_vec(), "64500\t64501\t-2"),
        ("pyasn.gz", gzip(pyasn), "64500\t64501\t-2"),
        ("mrt", mrt.clone(), "1\t2\t-2"),
        ("mrt.gz", gzip(&mrt), "1\t2\t-2"),
    ] {
        options.files.insert(name.into(), Bytes::new(Arc::new(bytes)));
        let mut policy = Policy::load("test.lua", STOCK, &options).expect("it loads");
        let chunk = format!(
            "local t, found = lpmlib.lpm_from_file '{name}', {{}}
            for net = 10, 12 do
                found[#found + 1] = lpmlib.lpm_lookup(t, (lpmlib.str_to_prefix(net .. '.1.1.1/32')))
            end
            return unpack(found)"
        );
        assert_eq!(policy.exec(&chunk).as_deref(), Ok(labels), "{name}");
    }
}

/// A record of an MRT dump (RFC 6396 §4.3) with these parts.
fn record(subtype: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let mut record = vec![0, 0, 0, 0, 0, 13, 0, subtype, 0, 0, 0, body.len() as u8];
    record.extend(body);
    record
}

/// One stored block (RFC 1951 §3.2.4, RFC 1952 §2.3).
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let len = bytes.len() as u16;
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    file.extend([len.to_le_bytes(), (!len).to_le_bytes()].concat());
    file.extend(bytes);
    let crc = bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ ((crc & 1) * 0xedb8_8320))
    });
    file.extend([(!crc).to_le_bytes(), u32::from(len).to_le_bytes()].concat());
    file
}

#[test]
fn a_million_prefixes_come_from_a_file() {
    let table = formats::Table::open("internet:1000000", &Default::default()).expect("it is made");
    let mut text = String::new();
    for (prefix, hop) in table.v4.iter() {
        text.push_str(&format!("{prefix} {}\n", hop.0));
    }
    let mut options = Options::default();
    options.files.insert("internet".into(), Bytes::new(Arc::new(text)));
    let source = "t = lpmlib.lpm_from_file 'internet' function lookup_policy() end";
    let mut policy = Policy::load("test.lua", source, &options).expect("it loads");
    for (prefix, _) in table.v4.iter().step_by(9973) {
        let (_, hop) = table.v4.lookup(prefix.last()).expect("it is covered");
        let ip = prefix.last().to_be();
        let found = policy.exec(&format!("return lpmlib.lpm_lookup(t, {ip})"));
        assert_eq!(found, Ok(hop.0.to_string()), "{prefix}");
    }
    options.tables = 1 << 20;
    let error = Policy::load("test.lua", source, &options).err().expect("no room").to_string();
    assert!(error.contains("internet: no memory is left for it"), "{error}");
}

/// Policies take an error of a lookup for "no prefix".
#[test]
fn a_table_without_memory_for_an_engine_answers_all_the_same() {
    let options = Options { tables: 64 << 10, ..Options::default() };
    let source = "function lookup_policy() end
        t = lpmlib.new_lpm(10, 1) t6 = lpmlib.new_lpm6(10, 1)
        function add(t, add, to, text, label)
            local ip, len = to(text) return add(t, ip, len, label) end
        function ip(text) return (lpmlib.str_to_prefix(text .. '/32')) end
        function ip6(text) return (lpmlib.str_to_prefix6(text .. '/128')) end";
    let mut policy = Policy::load("test.lua", source, &options).expect("it loads");
    let add = "add(t, lpmlib.lpm_add, lpmlib.str_to_prefix";
    let add6 = "add(t6, lpmlib.lpm6_add, lpmlib.str_to_prefix6";
    values(
        &mut policy,
        &[
            (&format!("{add}, '10.0.0.0/8', 0), {add6}, 'fc00::/7', 4)"), "nil"),
            ("lpmlib.lpm_lookup(t, ip '10.1.2.3'), lpmlib.lpm_lookup(t, ip '11.1.2.3')", "0\t-2"),
            ("lpmlib.lpm6_lookup(t6, ip6 'fd00::1')", "4"),
            (&format!("{add}, '10.1.0.0/16', 7)"), ""),
            ("lpmlib.lpm_lookup(t, ip '10.1.2.3'), lpmlib.lpm_lookup(t, ip '10.2.2.3')", "7\t0"),
        ],
    );
}

//! What is understood, and what is said about mistakes.

mod registry;

use std::path::Path;

use api::apps::router::RouteKind;

use super::example;
use super::switch::config::Bridges;
use crate::config::{Config, Device, Feed, Route, Text, Via, VlanTags, Vrf};
use proptest::prelude::*;
use tables::Outer;

fn good(text: &str) -> Config {
    Config::parse("t.toml", text).unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"))
}

fn bad(text: &str) -> String {
    Config::parse("t.toml", text).unwrap_err().to_string()
}

const PORT: &str = "[ports.p0]\ndevice = \"mem\"\n";

#[test]
fn the_example_is_a_configuration_and_shows_the_defaults() {
    let config = good(&example(false));
    let plain = good("workers = [1]\n[ports.p0]\ndevice = \"packet:veth0\"\n");
    let limits = |vrf: &Vrf| (vrf.ipv4.max_routes, vrf.ipv6.max_routes);
    assert_eq!(limits(&config.vrfs[0]), (Some(4_000_000), Some(4_000_000)));
    let mut without = config.clone();
    without.vrfs = plain.vrfs.clone();
    assert_eq!(without, plain);
}

#[test]
fn the_whole_example_uses_every_key() {
    let config = good(&example(true));
    let port = &config.ports[0];
    assert_eq!(port.interface.addresses.len(), 2);
    assert_eq!(port.vlans[0].0, VlanTags::Two(Outer::Dot1ad, 7, 8));
    assert_eq!(port.vlans[0].1.name, "p0.7.8");
    assert_eq!(config.routes[0].via[1].weight, 2);
    assert_eq!(config.neighbours[0].mac.to_string(), "02:00:00:00:00:02");
    let names: Vec<_> = config.interfaces().map(|(.., of)| of.name.as_str()).collect();
    assert_eq!(names, ["p0", "p0.7.8", "lan", "dc.10"]);
}

#[test]
fn mistakes_have_places_and_say_what_was_expected() {
    let text = bad("[ports.p0]\ndevice = \"mem\"\nmtu = \"big\"\n");
    assert_eq!(
        text,
        "t.toml:3:7: ports.p0.mtu: expected a whole number from 68 to 9216, found `big`"
    );
    let text = bad("[ports.p0]\ndevice = \"mem\"\nadresses = []\n");
    assert_eq!(text, "t.toml:3:1: unknown key `ports.p0.adresses`: did you mean `addresses`?");
    assert!(bad("[ports.p0\n").starts_with("t.toml:1:"));
    assert!(bad("").contains("no port"));
}

#[test]
fn the_outer_of_two_tags_is_said_or_a_service_tag() {
    let of = |device: &str, tables: &str| format!("[ports.p0]\ndevice = \"{device}\"\n{tables}");
    let two = |more: &str| format!("[ports.p0.vlan.\"7.8\"]\n{more}");
    let tags = |more: &str| good(&of("mem", &two(more))).ports[0].vlans[0].0;
    assert_eq!(tags(""), VlanTags::Two(Outer::Dot1ad, 7, 8));
    assert_eq!(tags("outer = \"0x88a8\"\n"), VlanTags::Two(Outer::Dot1ad, 7, 8));
    assert_eq!(tags("outer = \"0x8100\"\n"), VlanTags::Two(Outer::Dot1q, 7, 8));
    let other = bad(&of("mem", &two("outer = \"0x9100\"\n")));
    assert!(other.starts_with("t.toml:4:9: ports.p0.vlan.7.8.outer: "), "{other}");
    let one = bad(&of("mem", "[ports.p0.vlan.100]\nouter = \"0x8100\"\n"));
    assert!(one.contains("4:9: ports.p0.vlan.100.outer: `outer` is for two tags"), "{one}");
    // The kernel's interface would have one name.
    let both = of("mem", &[two("outer = \"0x8100\"\n"), two("outer = \"0x88a8\"\n")].concat());
    let both = bad(&both);
    assert!(both.contains("t.toml:5:16: ") && both.contains("`\"7.8\"` is given twice"), "{both}");
    let lost = bad(&of("net_af_packet0,iface=eth1", &two("")));
    assert!(lost.contains("t.toml:3:") && lost.contains("packet:eth1"), "{lost}");
    good(&of("net_af_packet0,iface=eth1", &two("outer = \"0x8100\"\n")));
}

#[test]
fn all_mistakes_are_reported_at_once() {
    // A vrf with a mistake is there for who uses it.
    let text = "[ports.p0]\ndevice = \"mem\"\nvrf = \"red\"\n[vrf.red]\ntable = 255\n";
    assert_eq!(Config::parse("t", text).unwrap_err().0.len(), 1);
    let text = "workers = []\nidle = \"lazy\"\n[ports.p0]\nmtu = 1\n[brigde.x]\n";
    let mistakes = Config::parse("t", text).unwrap_err();
    assert_eq!(mistakes.0.len(), 5, "{mistakes}");
    let lines: Vec<_> = mistakes.0.iter().map(|mistake| mistake.line).collect();
    assert!(lines.is_sorted(), "{mistakes}");
}

#[test]
fn a_core_that_is_not_there_is_reported_at_its_place() {
    let port = "[ports.p0]\ndevice = \"mem\"\n";
    for (workers, line, column) in [
        ("# two cores\nworkers = [0, 7]\n", 2, 15),
        ("# workers = 9\n  workers= [0,\n    7]\n", 3, 5),
        ("\"workers\" = [0, 7]\n", 1, 17),
    ] {
        let text = format!("{workers}{port}");
        let source = Text { file: "t.toml".into(), text: text.clone() };
        let lacks = |last| good(&text).lacks_a_core(&source, last).map(|m| m.to_string());
        assert_eq!(lacks(Some(7)).or(lacks(None)), None);
        let want =
            format!("t.toml:{line}:{column}: workers[1]: there is no core 7; the last core is 1");
        assert_eq!(lacks(Some(1)), Some(want));
    }
}

#[test]
fn an_engine_may_be_written_with_its_options() {
    let both = "[ports.p0]\ndevice = \"mem\"\n[vrf.main]\nipv4 = { engine = \"dxr:k=20,isa=portable\", max_routes = 7 }\n\
                [vrf.red]\ntable = 7\nipv4 = { engine = \"dxr:k=20\", isa = \"portable\" }\n";
    let config = good(both);
    assert_eq!(config.vrfs[0].ipv4.engine, "dxr");
    assert_eq!(config.vrfs[0].ipv4.options, config.vrfs[1].ipv4.options);
    assert_eq!(config.vrfs[0].ipv4.options.0["k"], "20");
}

#[test]
fn each_mistake_is_found() {
    let table = [
        ("[bridge.lan]\nports = []\n", "at least one port"),
        ("[ports.much-too-long-a-name]\ndevice=\"mem\"\n", "up to 10 letters"),
        ("[ports.lo]\ndevice=\"mem\"\n", "choose another"),
        ("[ports.p0]\n", "`device` is missing"),
        ("[dpdk]\nhugepages=\"maybe\"\n", "true, false or \"auto\""),
        ("[ports.p0]\ndevice=\"pcap:\"\n", "expected pcap:IN,OUT"),
        ("[ports.p0]\ndevice=\"mem\"\nvrf=\"red\"\n", "a vrf of this file: main"),
        ("[ports.p0]\ndevice=\"mem\"\naddresses=[\"224.0.0.1/4\"]\n", "a single host"),
        ("[ports.p0]\ndevice=\"mem\"\nmac=\"01:00:00:00:00:00\"\n", "single station"),
        ("[ports.p0]\ndevice=\"mem\"\n[ports.p0.vlan.4095]\n", "a VLAN from 1 to 4094"),
        ("[ports.p0]\ndevice=\"mem\"\n[ports.p0.vlan.5]\nmtu=9000\n", "exceeds the port's"),
        ("[vrf.red]\n", "`table` is missing"),
        ("[vrf.red]\ntable=255\n", "the kernel's own"),
        ("[vrf.main]\ntable=7\n", "is 254"),
        ("[vrf.a]\ntable=7\n[vrf.b]\ntable=7\n[ports.p0]\ndevice=\"mem\"\n", "already uses"),
        ("[vrf.main]\nipv4={engine=\"nonsense\"}\n", "an engine for ipv4"),
        ("[vrf.main]\nipv4={engine=\"dxr\",k=99}\n", "vrf.main.ipv4.k: dxr refuses: option k"),
        ("[vrf.main]\nipv4={engine=\"dxr:k=99\"}\n", "ipv4.engine: dxr refuses: option k"),
        ("[vrf.main]\nipv4={engine=\"dxr:k\"}\n", "NAME:OPTION=VALUE"),
        ("[vrf.main]\nipv4={engine=\"dxr:q=1\"}\n", "dxr refuses: there is no option q"),
        ("[vrf.main]\nipv4={engine=\"dxr:k=16\",k=18}\n", "already has a value in `engine`"),
        ("[vrf.main]\nroutes=\"bgp\"\n", "one of \"netlink\", \"fpm\""),
        ("[[route]]\nprefix=\"10.0.0.1/8\"\nvia=\"1.2.3.4\"\n", "right of its length"),
        ("[[route]]\nprefix=\"10.0.0.0/8\"\n", "`via` is missing"),
        ("[[route]]\nprefix=\"10.0.0.0/8\"\nkind=\"blackhole\"\nvia=\"1.2.3.4\"\n", "only unicast"),
        ("[[route]]\nprefix=\"::/0\"\nvia=\"1.2.3.4\"\n", "IPv6 gateway"),
        ("[[route]]\nprefix=\"::/0\"\nvia=[{weight=1}]\n", "at least one of"),
        ("[[neighbour]]\ninterface=\"p9\"\n", "an interface of this file"),
        ("workers=[1,1]\n", "given twice"),
        ("[ports.p0]\ndevice=\"mem\"\nmtu=68\naddresses=[\"fe80::1/64\"]\n", "at least 1280"),
        (
            "[ports.a]\ndevice=\"x,iface=v\"\n[ports.b]\ndevice=\"y,iface=v\"\n",
            "`a` has `v` already",
        ),
        ("[ports.eth0]\ndevice=\"x,iface=eth0\"\n", "2:8: ports.eth0.device: the router's own"),
        ("[ports.p0]\ndevice=\"tap:p0\"\n", "another name"),
        ("[ports.p0]\ndevice=\"pcap:a,a\"\n", "two files"),
        ("[ports.p0]\ndevice=\"mem\"\naddresses=[\"10.0.0.0/24\"]\n", "is the address of its"),
        ("[ports.p0]\ndevice=\"mem\"\naddresses=[\"10.0.3.255/22\"]\n", "the broadcast address"),
        (
            "[ports.p0]\ndevice=\"mem\"\naddresses=[\"10.0.0.1/8\"]\n\
             [[route]]\nprefix=\"20.0.0.0/8\"\nvia=\"10.0.0.1\"\n",
            "own address",
        ),
        ("[ports.a]\ndevice=\"net_x0\"\n[ports.b]\ndevice=\"net_x0,k=1\"\n", "`a` has `net_x0`"),
        ("[vrf.p0]\ntable=7\n[ports.p0]\ndevice=\"mem\"\n", "an interface has this name"),
        (
            "[ports.a]\ndevice=\"mem\"\naddresses=[\"10.0.0.1/8\"]\n\
             [ports.a.vlan.5]\naddresses=[\"10.0.0.1/16\"]\n",
            "`a` of the same vrf",
        ),
        (
            "[[route]]\nprefix=\"10.0.0.0/8\"\nkind=\"blackhole\"\n\
             [[route]]\nprefix=\"10.0.0.0/8\"\nkind=\"prohibit\"\n",
            "another route has this prefix and metric",
        ),
        (
            "[[neighbour]]\ninterface=\"p0\"\naddress=\"10.0.0.2\"\nmac=\"02:00:00:00:00:01\"\n\
             [[neighbour]]\ninterface=\"p0\"\naddress=\"10.0.0.2\"\nmac=\"02:00:00:00:00:02\"\n\
             [ports.p0]\ndevice=\"mem\"\n",
            "t.toml:5:1: neighbour[1]: another neighbour has this address on this interface",
        ),
        ("[[neighbour]]\naddress=\"224.0.0.1\"\n", "a single host"),
        ("[[route]]\nprefix=\"::/0\"\nvia=\"ff02::1\"\n", "not a single host"),
        ("[[route]]\nprefix=\"::/0\"\nvia=\"fe80::1\"\n", "needs its interface"),
        ("[vrf.\"\"]\ntable=7\n", "the name of a vrf"),
        ("[vrf.\"a b\"]\ntable=7\n", "the name of a vrf"),
        ("[vrf.default]\ntable=7\n", "the name of a vrf"),
        ("[vrf.much-too-long-a-name]\ntable=7\n", "the name of a vrf"),
        ("[ports.p0]\n[ports.p0]\n", "t.toml:2:8: `p0` is given twice"),
    ];
    for (text, wanted) in table {
        let said = bad(text);
        assert!(said.contains(wanted), "{text}\n{said}\nwanted: {wanted}");
    }
}

/// What a start would come upon: each is said with its place and what to do.
#[test]
fn what_run_refuses_is_a_mistake_of_the_file() {
    let port = |device: &str| format!("[ports.p0]\ndevice = \"{device}\"\n");
    let two = |first: &str, second: &str| {
        format!(
            "[ports.p0]\ndevice = \"mem\"\naddresses = [\"{first}\"]\n\
             [ports.p1]\ndevice = \"mem\"\naddresses = [\"{second}\"]\n"
        )
    };
    let route = |via: &str| {
        format!(
            "{}[[route]]\nprefix = \"10.9.0.0/16\"\nvia = {via}\n",
            two("10.0.1.1/24", "10.0.2.1/24")
        )
    };
    let bridges = |macs: &str| {
        format!(
            "{TWO}[bridge.a]\nports = [\"p0\"]\nmax_macs = {macs}\n\
             [bridge.b]\nports = [\"p1\"]\nmax_macs = {macs}\n"
        )
    };
    let device = "t.toml:2:10: ports.p0.device: ";
    let second = "t.toml:6:14: ports.p1.addresses[0]: ";
    let at_route = "t.toml:7:1: route[0]: ";
    let cases = [
        (port("net_af_packet0"), device, "net_af_packet0,iface=eth1"),
        (port("net_af_xdp0,iface="), device, "net_af_xdp0,iface=eth1"),
        (port("net_af_packet0,blocksz=4096"), device, "`iface=`"),
        (port("net_pcap0"), device, "`iface=`"),
        (port("net_virtio_user0"), device, "`path=`"),
        (port("net_bonding0,slave=1"), device, "`mode=`"),
        (port("net_af_paket0,iface=eth1"), device, "did you mean `net_af_packet0`?"),
        (port("eth1"), device, "\"packet:eth1\""),
        (port("packet:lo"), device, "another interface"),
        (port("net_af_packet0,iface=lo"), device, "another interface"),
        (port("tap:lo"), device, "another interface"),
        ("[ports.lo]\ndevice = \"mem\"\n".into(), "t.toml:1:1: ports.lo: ", "choose another"),
        (
            "[ports.v1]\ndevice = \"packet:v0\"\n[ports.p1]\ndevice = \"packet:v1\"\n".into(),
            "t.toml:4:10: ports.p1.device: ",
            "give the port, or the bridge, another name",
        ),
        (two("10.0.1.1/24", "10.0.1.2/24"), second, "networks that do not overlap"),
        (two("10.0.1.1/16", "10.0.2.2/24"), second, "networks that do not overlap"),
        (two("10.0.2.2/24", "10.0.1.1/16"), second, "`10.0.2.2/24` of `p0`"),
        (two("2001:db8::1/32", "2001:db8:1::1/64"), second, "put them into two vrfs"),
        (route("\"192.0.2.1\""), at_route, "on no network of an interface of vrf main"),
        (route("[\"10.0.1.2\", \"10.0.3.2\"]"), at_route, "10.0.3.2"),
        (route("[{ to = \"10.0.1.2\", interface = \"p1\" }]"), at_route, "network of `p1`"),
        (
            format!("[vrf.main]\nroutes = \"fpm\"\n[vrf.red]\ntable = 7\nroutes = \"fpm\"\n{PORT}"),
            "t.toml:5:10: vrf.red.routes: ",
            "use \"netlink\" here",
        ),
        (bridges("1_073_741_824"), "t.toml:10:12: bridge.b.max_macs: ", "lower `max_macs`"),
    ];
    for (text, place, remedy) in cases {
        let said = bad(&text);
        let line = said.lines().find(|line| line.starts_with(place));
        assert!(
            line.is_some_and(|line| line.contains(remedy)),
            "{text}\n{said}\nwanted: {place}{remedy}"
        );
    }
    for text in [
        port("net_tap0,iface=x1"),
        port("net_pcap0,rx_pcap=a,tx_pcap=b"),
        port("0000:03:00.0"),
        port("03:00.0"),
        // Apart, or in a vrf each; single addresses and links' own networks are none.
        two("10.0.1.1/24", "10.0.2.1/24"),
        two("10.0.1.1/24", "10.0.1.2/32"),
        two("fe80::1/64", "fe80::2/64"),
        "[vrf.red]\ntable = 7\n".to_string()
            + &two("10.0.1.1/24", "10.0.1.2/24")
                .replace("[ports.p1]\n", "[ports.p1]\nvrf = \"red\"\n"),
        "[ports.p0]\ndevice = \"mem\"\naddresses = [\"10.0.1.1/24\", \"10.0.1.9/16\"]\n".into(),
        // By a route over a link, or where the file gives no addresses at all.
        route("\"192.0.2.1\"")
            + "[[route]]\nprefix = \"192.0.2.0/24\"\nvia = [{ interface = \"p1\" }]\n",
        route("\"192.0.2.1\"") + "[ports.p2]\ndevice = \"mem\"\n",
        bridges("1_000_000_000"),
    ] {
        good(&text);
    }
}

#[test]
fn what_is_there_twice_is_reported_at_its_second_place() {
    let text = bad(&format!("[vrf.a]\ntable=7\n[vrf.b]\ntable=7\n{PORT}"));
    assert_eq!(text, "t.toml:4:7: vrf.b.table: `a` already uses this table");
    let apart = "[vrf.red]\ntable=7\n[ports.a]\ndevice=\"mem\"\naddresses=[\"10.0.0.1/8\"]\n\
                 [ports.b]\ndevice=\"mem\"\nvrf=\"red\"\naddresses=[\"10.0.0.1/8\"]\n";
    good(apart);
    good("[ports.a]\ndevice=\"mem\"\naddresses=[\"10.0.0.0/31\", \"10.0.0.9/32\"]\n");
}

#[test]
fn a_link_local_address_may_be_on_every_link() {
    let ports = "[ports.a]\ndevice=\"mem\"\naddresses=[\"fe80::1/64\"]\n\
                 [ports.b]\ndevice=\"mem\"\naddresses=[\"fe80::1/64\", \"fe80::2/64\"]\n";
    good(ports);
    let by = |name: &str, to: &str| {
        format!("{ports}[[route]]\nprefix=\"::/0\"\nvia=[{{to=\"{to}\",interface=\"{name}\"}}]\n")
    };
    good(&by("a", "fe80::2")); // b's own, and somebody else's on a's link
    assert!(bad(&by("b", "fe80::2")).contains("own address"));
    let twice = ports.replace("fe80::2", "fe80::1");
    assert!(bad(&twice).contains("`b` of the same vrf has this address"));
}

#[test]
fn a_route_is_objected_to_however_it_came() {
    let config = good(&format!("{PORT}addresses = [\"10.0.0.1/24\"]\n"));
    let said = |prefix: &str, to: &str, interface: Option<&str>| {
        let to = Some(to.parse().unwrap());
        let via = vec![Via { to, interface: interface.map(Into::into), weight: 1 }];
        let (prefix, kind, vrf) = (prefix.parse().unwrap(), RouteKind::Unicast, "main".into());
        config.objection(&Route { prefix, kind, via, vrf, metric: None }).unwrap_or_default()
    };
    assert_eq!(said("10.9.0.0/16", "10.0.0.2", None), "");
    assert_eq!(said("10.9.0.0/16", "fe80::1", Some("p0")), "");
    assert!(said("10.9.0.0/16", "fe80::1", None).contains("needs its interface"));
    assert!(said("10.9.0.0/16", "10.0.0.1", None).contains("own address"));
    assert!(said("10.9.0.0/16", "224.0.0.1", None).contains("single host"));
    assert!(said("2001:db8::/32", "10.0.0.2", None).contains("IPv6 gateways"));
    let route = |metric| {
        format!("{PORT}[[route]]\nprefix=\"10.9.0.0/16\"\nkind=\"blackhole\"\nmetric={metric}\n")
    };
    good(&route(7));
    assert!(bad(&route(8)).contains("metric 8 is reserved for protections"));
}

#[test]
fn what_is_no_file_is_reported_and_one_without_end_is_not_read() {
    let said = |path: &str| Config::load(Path::new(path)).unwrap_err().to_string();
    assert!(said("/dev/zero").contains("/dev/zero: cannot be read: it is longer than 64 MiB"));
    assert!(said("/").contains("cannot be read: "));
    assert!(said("/dev/null").contains("/dev/null:1:1: no port"));
}

#[test]
fn the_same_is_reported_once() {
    let deep = format!("x = {}\n", "[".repeat(1000));
    let mistakes = Config::parse("t", &deep).unwrap_err().0;
    assert_eq!(mistakes.len(), 2, "{mistakes:?}");
}

#[test]
fn devices_and_offline() {
    let config = good("[ports.a]\ndevice = \"pcap:in.pcap,,raw\"\n[ports.b]\ndevice = \"mem\"\n");
    let input = Some("in.pcap".to_string());
    assert_eq!(config.ports[0].device, Device::Pcap { input, output: None, raw: true });
    assert!(config.is_offline());
    assert!(!good("[ports.a]\ndevice = \"0000:01:00.0\"\n").is_offline());
}

#[test]
fn vrfs_start_with_main() {
    let text = format!("[vrf.red]\ntable = 7\nroutes = \"fpm\"\n{PORT}");
    let config = good(&text);
    let vrfs: Vec<_> = config.vrfs.iter().map(|vrf| (vrf.name.as_str(), vrf.table)).collect();
    assert_eq!(vrfs, [("main", 254), ("red", 7)]);
    assert_eq!(config.vrfs[1].routes, Feed::Fpm);
}

#[test]
fn frr_is_whom_the_file_says() {
    use feeds::fpm::{Rules, User};
    let rules = |text: &str| {
        good(&format!("{PORT}[fpm]\n{text}")).settings.get::<Rules>().cloned().unwrap()
    };
    assert_eq!(rules(""), Rules::default());
    let users = ["zebra", "7", "8"].map(User::parse).to_vec();
    let hold = std::time::Duration::from_secs(600);
    assert_eq!(rules("users = [\"zebra\", \"7\", 8]\nhold = 600"), Rules { users, hold });
    for wrong in ["users = []", "users = [true]", "users = [\"\"]", "users = \"frr\"", "hold = 0"] {
        let said = bad(&format!("{PORT}[fpm]\n{wrong}\n"));
        assert!(said.contains("t.toml:4:") && said.contains("fpm."), "{said}");
    }
}

proptest! {
    #[test]
    fn any_text_is_a_configuration_or_mistakes(text in "[\\[\\]a-z0-9=\"., {}\n]{0,80}") {
        let _ = Config::parse("t", &text);
    }

    #[test]
    fn a_damaged_example_never_panics(at in 0_usize..4000, with in any::<char>()) {
        let mut text: Vec<char> = example(true).chars().collect();
        let at = at % text.len();
        text[at] = with;
        let _ = Config::parse("t", &text.into_iter().collect::<String>());
    }
}

const TWO: &str = "[ports.p0]\ndevice = \"mem\"\n[ports.p1]\ndevice = \"mem\"\n";

#[test]
fn bridges_are_read() {
    let plain = good(&format!("{TWO}[bridge.lan]\nports = [\"p0\", \"p1\"]\naddresses = []\n"));
    let lan = &Bridges::of(&plain)[0];
    assert_eq!((lan.looks_at_tags(), lan.domains(), lan.ageing), (false, vec![0], 300));
    let names: Vec<_> = plain.interfaces().map(|(.., of)| of.name.clone()).collect();
    assert_eq!(names, ["lan"], "the ports of a bridge have no interfaces");
    let tagged = good(&format!(
        "{TWO}[bridge.dc]\nports = [\"p0\", \"p1\"]\n[bridge.dc.port.p0]\naccess = 10\n\
         [bridge.dc.port.p1]\ntrunk = [20, \"30-31\"]\nnative = 5\n\
         [bridge.dc.vlan.30]\naddresses = [\"10.0.0.1/24\"]\n\
         [[bridge.dc.mac]]\nmac = \"02:00:00:00:00:01\"\nvlan = 10\nport = \"p0\"\n"
    ));
    assert_eq!(Bridges::of(&tagged)[0].domains(), [5, 10, 20, 30, 31]);
    let (carrier, tags, interface) = tagged.interfaces().next().unwrap();
    assert_eq!(interface.name, "dc.30");
    assert_eq!(carrier.ports(tags), ["p1"], "the ports that have its VLAN");
    let (carrier, tags, _) = plain.interfaces().next().unwrap();
    assert_eq!(carrier.ports(tags), ["p0", "p1"]);
}

#[test]
fn reserved_groups_are_forwarded_as_named() {
    let passing = |value: &str| {
        let text = format!("{TWO}[bridge.lan]\nports = [\"p0\", \"p1\"]\nlink_local = {value}\n");
        let set = Bridges::of(&good(&text))[0].link_local;
        (0..16).filter(|&last| set.passes(last)).collect::<Vec<u8>>()
    };
    assert!(passing("\"drop\"").is_empty());
    assert_eq!(passing("\"forward\""), [0x0, 0xb, 0xc, 0xd, 0xf]);
    assert_eq!(passing("[\"lldp\", \"stp\", \"eapol\"]"), [0x0, 0x3, 0xe]);
}

#[test]
fn mistakes_about_bridges_say_what_to_do() {
    let bridge = |rest: &str| bad(&format!("{TWO}[bridge.lan]\nports = [\"p0\", \"p1\"]\n{rest}"));
    let cases = [
        ("[bridge.x]\nports = [\"p0\"]\n", "in a bridge already"),
        ("[bridge.lan.port.p0]\naccess = 10\n", "neither `access` nor `trunk`"),
        ("[bridge.lan.port.p2]\naccess = 10\n", "not in the list"),
        ("link_local = [\"lacp\"]\n", "expected one of \"stp\", \"eapol\""),
        ("link_local = \"lldp\"\n", "expected one of \"drop\", \"forward\""),
        ("[bridge.lan.port.p0]\naccess = 4095\n", "1 to 4094"),
        ("[bridge.lan.port.p0]\naccess = 1\ntrunk = \"all\"\n", "either"),
        ("[bridge.lan.port.p0]\nnative = 1\n", "`native` is for"),
        ("[bridge.lan.vlan.7]\naddresses = []\n", "no port of the bridge has this VLAN"),
        ("[bridge.lan.port.p0]\ntrunk = [\"9-3\"]\n", "ranges"),
        ("when_full = \"forget\"\n", "replace"),
        ("max_mac = 7\n", "did you mean `max_macs`"),
        ("mtu = 9000\n", "exceeds that of a port of the bridge, 1500"),
        ("[[route]]\nprefix = \"10.0.0.0/8\"\nvia = [{ interface = \"p0\" }]\n", "an interface of"),
    ];
    for (rest, what) in cases {
        let text = bridge(rest);
        assert!(text.contains(what), "{rest}: {text}");
    }
    let vlans = "[bridge.lan.port.p0]\naccess = 10\n[bridge.lan.port.p1]\naccess = 20\n";
    assert!(bridge(&format!("{vlans}[bridge.lan.vlan.010]\n")).contains("no port of the bridge"));
    let station = "[[bridge.lan.mac]]\nmac = \"02:00:00:00:00:01\"\nvlan = 10\n";
    assert!(bridge(&format!("{vlans}{station}port = \"p1\"\n")).contains("a port of VLAN 10"));
    let twice = format!("{vlans}{station}port = \"p0\"\n{station}port = \"p0\"\n");
    assert!(bridge(&twice).contains("the station is at `p0` already"));
    let all = "[bridge.a]\nports = [\"p0\"]\n[bridge.a.port.p0]\ntrunk = \"all\"\n";
    let beside = bad(&format!("{TWO}{all}[bridge.b]\nports = [\"p1\"]\n"));
    assert!(beside.contains("name those in use, as in trunk"), "{beside}");
    let routed = "[ports.p0]\ndevice = \"mem\"\naddresses = [\"10.0.0.1/8\"]\n\
                  [bridge.lan]\nports = [\"p0\"]\n";
    assert!(bad(routed).contains("give them to the bridge"));
}

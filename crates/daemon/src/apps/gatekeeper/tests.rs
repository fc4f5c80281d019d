//! What is understood of `[gatekeeper]`, and what is said about mistakes.

use std::net::IpAddr;

use lookup::exact::flow::Full;
use lookup::sync::Domain;
use nodes::gatekeeper::settings::{DecisionsFrom, SHADOW};
use tables::Action;

use policy::bpf::assemble::{exit, goto, mov, object};

use super::programs::{Programs, Wanted};
use super::read::Shield;
use super::{Gatekeeper, candidates, ends, parts};
use crate::app::Application;
use crate::config::Config;
use crate::error::Error;

const PORTS: &str = "\
    [vrf.red]\ntable = 7\n\
    [ports.p0]\ndevice = \"mem\"\naddresses = [\"192.0.2.1/24\"]\n\
    [ports.p1]\ndevice = \"mem\"\naddresses = [\"198.51.100.1/24\", \"fe80::1/64\", \"2001:db8::1/64\"]\n\
    [ports.p1.vlan.5]\n[ports.p2]\ndevice = \"mem\"\nvrf = \"red\"\n\
    [ports.p3]\ndevice = \"mem\"\n[bridge.lan]\nports = [\"p3\"]\naddresses = []\n";
const SIDES: &str = "front = [\"p0\"]\nback = [\"p1\"]\n";

fn read(rest: &str) -> Result<Config, String> {
    let text = format!("{PORTS}[gatekeeper]\n{rest}");
    Config::parse("t", &text).map_err(|mistakes| mistakes.to_string())
}

fn shield(rest: &str) -> Shield {
    let config = read(rest).unwrap_or_else(|mistakes| panic!("{mistakes}\n{rest}"));
    Shield::of(&config).expect("read").clone()
}

fn protect(keys: &str) -> String {
    format!("{SIDES}[[gatekeeper.protect]]\n{keys}")
}

#[test]
fn a_shield_is_read() {
    let plain = shield(SIDES);
    assert_eq!((plain.front, plain.back), (vec!["p0".to_string()], vec!["p1".to_string()]));
    assert_eq!((plain.table.engine, plain.table.full), ("flow-table", Full::Replace));
    assert_eq!((plain.table.entries, plain.waiting), (1 << 20, 512));
    assert_eq!((plain.bandwidth, plain.requests), (1_000_000_000, 6_250_000));
    assert_eq!((plain.ports.src, plain.ports.dst), (41_120, 45_232));
    assert_eq!(plain.decisions_from, DecisionsFrom::ItsGrantors);
    assert!(!plain.withdraw && plain.protected.is_empty());
    let text = "front = [\"p0\", \"lan\"]\nback = [\"p1.5\"]\ntable = \"hopscotch\"\nentries = 9\n\
                bandwidth_mbps = 10\nrequest_percent = 0.0125\nfrom = [\"10.0.0.1\"]\n\
                decisions_from = \"grantors\"\n\
                [[gatekeeper.protect]]\nprefix = \"203.0.113.0/24\"\nshadow = true\n\
                grantors = [\"198.51.100.9\", { to = \"198.51.100.10\", weight = 2, shadow = true }]\n\
                [[gatekeeper.protect]]\nprefix = \"203.0.112.0/24\"\naction = \"bypass\"\n";
    let other = shield(text);
    assert_eq!((other.table.engine, other.table.full), ("hopscotch", Full::Thesis));
    assert_eq!((other.table.entries, other.requests), (9, 156));
    assert_eq!(other.from, [Some(IpAddr::from([10, 0, 0, 1])), None]);
    let first = &other.protected[0];
    assert_eq!((first.action, first.options, first.grantors.len()), (Action::Protect, SHADOW, 2));
    assert_eq!((first.grantors[1].weight, first.grantors[1].shadow), (2, true));
    assert_eq!(other.protected[1].action, Action::Bypass);
    let keeps = shield(&format!("{SIDES}table = {{ keep = 20 }}\n")).table;
    assert_eq!((keeps.engine, keeps.options.0["keep"].as_str()), ("flow-table", "20"));
}

#[test]
fn programs_are_read() {
    let text = format!(
        "{SIDES}[[gatekeeper.program]]\nindex = 5\nobject = \"/etc/rutter/dns.v2.bpf\"\n\
         [[gatekeeper.program]]\nindex = 0\nobject = \"mine\"\nname = \"other\"\n"
    );
    let read: Vec<_> = shield(&text).programs.into_iter().map(|of| (of.index, of.name)).collect();
    assert_eq!(read, [(5, "dns.v2".to_string()), (0, "other".to_string())]);
}

/// What the check refuses is said with its place, and does not start.
#[test]
fn objects_are_checked_at_the_start() {
    let dir = crate::trusted::tests::own_folder("programs");
    let file = |name: &str, bytes: &[u8]| {
        let path = dir.join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_string()
    };
    let wanted = |object: String| Wanted { index: 7, object, name: "mine".into() };
    let end = [mov(0, 1), exit()].concat();
    let domain = Domain::new();
    let programs = |object| Programs::new(&[wanted(object)], &domain).err().map(|(_, why)| why);
    assert_eq!(programs(file("good", &object(&end, &end))), None);
    let loops = file("loops", &object(&end, &[mov(0, 1), goto(-1), exit()].concat()));
    assert_eq!(programs(loops.clone()), Some(format!("{loops}: pkt: instruction 1: a loop")));
    let text = programs(file("text", b"no object")).unwrap();
    assert!(text.ends_with("no ELF object for eBPF"), "{text}");
    assert!(programs("/nowhere/at/all".into()).unwrap().contains("No such file"));
    assert!(programs("/dev/zero".into()).is_some());
    let usual = Programs::new(&[], &domain).unwrap().show(&[]);
    let names: Vec<_> = usual.iter().map(|of| (of.index, of.name.as_str())).collect();
    let stock = ["granted", "declined", "grantedv2", "web", "tcp-services"];
    assert_eq!(names, (0..).zip(stock).collect::<Vec<_>>());
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Nodes read one table, whatever was loaded since they were made; other code is another edition.
#[test]
fn what_is_loaded_is_there_for_all_nodes_at_once() {
    let dir = crate::trusted::tests::own_folder("editions");
    let file = |name: &str, gives| {
        let path = dir.join(name);
        let code = [mov(0, gives), exit()].concat();
        std::fs::write(&path, object(&[mov(0, 0), exit()].concat(), &code)).unwrap();
        path.to_str().unwrap().to_string()
    };
    let [one, other] = [file("one", 1), file("other", 0)];
    let domain = Domain::new();
    let programs = Programs::new(&[], &domain).unwrap();
    let (made_before, thread) = (programs.table(), domain.register("worker"));
    let has = |index| {
        let table = made_before.load(thread.guard());
        (table.get(index).is_some(), table.edition(index))
    };
    let wanted = |object: &String| Wanted { index: 9, object: object.clone(), name: "x".into() };
    assert_eq!(has(9), (false, 0));
    assert_eq!(programs.load(&wanted(&one)).unwrap(), 1);
    assert_eq!(has(9), (true, 1));
    assert_eq!(programs.load(&wanted(&one)).unwrap(), 1, "the same again");
    assert_eq!(programs.load(&wanted(&other)).unwrap(), 2);
    assert_eq!((has(9), has(8)), ((true, 2), (false, 0)));
    assert!(programs.load(&wanted(&"/nowhere".into())).is_err());
    assert_eq!(has(9), (true, 2), "what was there stays");
    assert_eq!(programs.unload(9).unwrap(), 3);
    assert_eq!(has(9), (false, 3));
    assert_eq!(programs.load(&Wanted { index: 0, ..wanted(&one) }).unwrap(), 1);
    assert_eq!(programs.unload(0).unwrap(), 2, "what is built in reads another page");
    // Measured anew or not, code that is the same goes on.
    programs.look();
    assert_eq!(has(0), (true, 2));
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn mistakes_about_a_shield_have_their_place() {
    let protected = "prefix = \"203.0.113.0/24\"\ngrantors = [\"198.51.100.9\"]\n";
    let with = |keys: &str| format!("{SIDES}{keys}");
    for (text, wanted) in [
        (String::new(), "t:18:1: gatekeeper: `front` is missing"),
        ("front = []\nback = [\"p1\"]\n".into(), "t:19:9: gatekeeper.front: expected at least one"),
        ("front = [\"p9\"]\nback = [\"p1\"]\n".into(), "an interface of this file: p0, p1"),
        (
            "front = [\"p0\"]\nback = [\"p0\"]\n".into(),
            "t:20:9: gatekeeper.back[0]: `p0` is named twice",
        ),
        (
            "front = [\"p2\"]\nback = [\"p1\"]\n".into(),
            "t:19:10: gatekeeper.front[0]: `p2` is in the vrf `red`: front and back",
        ),
        (with("table = \"dxr\"\n"), "t:21:9: gatekeeper.table: expected a table of flows: linear"),
        (with("table = { keep = 601 }\n"), "t:18:1: gatekeeper: flow-table refuses: option keep"),
        (with("table = { full = \"deployed\" }\n"), "unknown key `gatekeeper.table.full`"),
        (
            with("table = \"chaining\"\nfull = \"replace\"\n"),
            "gatekeeper.full: expected a rule of chaining: thesis",
        ),
        (
            with("full = \"thesis\"\ndecided_max = 50\n"),
            "t:22:15: gatekeeper.decided_max: only `full",
        ),
        (with("entries = 0\n"), "a whole number from 1 to 268435454"),
        (with("request_percent = 101\n"), "t:21:19: gatekeeper.request_percent: expected percent"),
        (with("request_percent = 0.00001\n"), "expected percent from 0.0001 to 100"),
        (with("request_percent = \"-5\"\n"), "expected percent from 0.0001 to 100"),
        (
            with("from = [\"10.0.0.1\", \"10.0.0.2\"]\n"),
            "t:21:21: gatekeeper.from[1]: expected one",
        ),
        (with("from = [\"224.0.0.1\"]\n"), "a single host"),
        (with("from = [\"fe80::1\"]\n"), "not link-local, found `fe80::1`"),
        (with("request_percent = 100.00001\n"), "from 0.0001 to 100, found 100.00001"),
        (
            protect("prefix = \"203.0.113.0/24\"\ngrantors = [\"224.1.1.1\"]\n"),
            "203.0.113.0/24: the Grantor 224.1.1.1 is not a single host's routed address",
        ),
        (
            protect("prefix = \"203.0.113.0/24\"\ngrantors = [\"10.0.0.9\", \"10.0.0.9\"]\n"),
            "203.0.113.0/24: the Grantor 10.0.0.9 is named twice",
        ),
        (
            with("[[gatekeeper.program]]\nindex = 5\n"),
            "t:21:1: gatekeeper.program[0]: `object` is missing",
        ),
        (
            with("[[gatekeeper.program]]\nindex = 256\nobject = \"x\"\n"),
            "gatekeeper.program[0].index: expected a whole number from 0 to 255",
        ),
        (
            with(
                "[[gatekeeper.program]]\nindex = 5\nobject = \"x\"\n\
                 [[gatekeeper.program]]\nindex = 5\nobject = \"y\"\n",
            ),
            "gatekeeper.program[1]: another program has the index 5",
        ),
        (with("fornt = []\n"), "did you mean `front`?"),
        (protect("grantors = []\n"), "t:21:1: gatekeeper.protect[0]: `prefix` is missing"),
        (protect("prefix = \"203.0.113.1/24\"\n"), "to the right of its length"),
        (protect("prefix = \"203.0.113.0/24\"\n"), "203.0.113.0/24 has no Grantor"),
        (
            protect("prefix = \"203.0.113.0/24\"\naction = \"drop\"\nshadow = true\n"),
            "only what Grantors decide has a shadow",
        ),
        (
            protect(
                "prefix = \"203.0.113.0/24\"\ngrantors = [{ to = \"10.0.0.9\", shadow = true }]\n",
            ),
            "all its Grantors are in shadow, and forward nothing",
        ),
        (
            protect("prefix = \"203.0.113.0/24\"\ngrantors = [{ weight = 2 }]\n"),
            "t:23:13: gatekeeper.protect[0].grantors[0]: `to` is missing",
        ),
        (
            protect(
                "prefix = \"203.0.113.0/24\"\ngrantors = [{ to = \"10.0.0.9\", weight = 0 }]\n",
            ),
            "a whole number from 1 to 256",
        ),
        (
            protect("prefix = \"2001:db8:9::/48\"\ngrantors = [\"10.0.0.9\"]\n"),
            "other address family",
        ),
        (
            protect("prefix = \"192.0.2.0/28\"\naction = \"drop\"\n"),
            "overlaps 192.0.2.0/24, a network of",
        ),
        (protect("prefix = \"224.0.0.0/8\"\naction = \"drop\"\n"), "which is never routed"),
        (
            format!("{}[[gatekeeper.protect]]\n{protected}", protect(protected)),
            "t:24:1: gatekeeper.protect[1]: 203.0.113.0/24 has a protection already",
        ),
        (
            format!(
                "{}[[gatekeeper.protect]]\nprefix = \"203.0.113.64/26\"\naction = \"bypass\"\n",
                protect(protected)
            ),
            "t:24:1: gatekeeper.protect[1]: 203.0.113.64/26 (bypass) and 203.0.113.0/24 (protect) overlap",
        ),
    ] {
        let said = read(&text).map(drop).expect_err(&text);
        assert!(said.contains(wanted), "{text}\nsaid:   {said}\nwanted: {wanted}");
    }
}

#[test]
fn a_mistake_is_said_once() {
    let said = read(&protect("prefix = \"203.0.113.0/24\"\ngrantors = \"10.0.2.2\"\n"));
    let said = said.map(drop).unwrap_err();
    assert!(said.contains("expected a list") && !said.contains("has no Grantor"), "{said}");
}

#[test]
fn no_channel_is_without_a_byte() {
    let least = shield(&format!("{SIDES}bandwidth_mbps = 1\nrequest_percent = 0.0001\n"));
    assert_eq!(least.requests, 1);
}

#[test]
fn pairs_meet_one_worker_by_each_port_of_the_front() {
    let config = read("front = [\"p1.5\", \"lan\"]\nback = [\"p0\"]\n").unwrap();
    let asks = |port: &&crate::config::Port| Gatekeeper.by_pair(&config, port);
    let ports: Vec<_> = config.ports.iter().filter(asks).map(|port| port.name.as_str()).collect();
    assert_eq!(ports, ["p1", "p3"]);
}

#[test]
fn what_has_a_port_of_the_front_is_of_the_front_unless_it_is_of_the_back() {
    let all = |rest: &str| {
        let text = format!(
            "{PORTS}[ports.p1.vlan.6]\n[ports.p1.vlan.7]\nvrf = \"red\"\n[gatekeeper]\n{rest}"
        );
        let config = Config::parse("t", &text).unwrap_or_else(|error| panic!("{error}"));
        super::fronts(&config, Shield::of(&config).unwrap())
    };
    assert_eq!(all("front = [\"p1.5\"]\nback = [\"p0\"]\n"), ["p1.5", "p1", "p1.6"]);
    assert_eq!(all("front = [\"p1.5\"]\nback = [\"p1\"]\n"), ["p1.5", "p1.6"]);
    assert_eq!(all("front = [\"p0\"]\nback = [\"p1\"]\n"), ["p0"]);
}

#[test]
fn requests_that_wait_take_half_of_the_buffers_at_most() {
    let shield = |top: &str, keys: &str| {
        let text = format!("{top}{PORTS}[gatekeeper]\n{SIDES}{keys}");
        let config = Config::parse("t", &text).map_err(|mistakes| mistakes.to_string())?;
        Ok::<_, String>(Shield::of(&config).unwrap().waiting)
    };
    assert_eq!(shield("workers = [0, 1]\nbuffers = 512\n", ""), Ok(64));
    assert_eq!(shield("workers = [0]\nbuffers = 4096\n", ""), Ok(512));
    assert_eq!(shield("workers = [0]\nbuffers = 4096\n", "waiting = 2048\n"), Ok(2048));
    let said = shield("workers = [0, 1]\n", "waiting = 65536\n").unwrap_err();
    let wanted = "gatekeeper.waiting: requests of all workers may take 131072 packet buffers, more \
                  than half of `buffers` (16384): set waiting = 4096, or buffers = 262144";
    assert!(said.contains(wanted), "{said}");
}

#[test]
fn grantors_are_asked_from_the_first_address_at_the_back() {
    let back: Vec<IpAddr> =
        ["fe80::1", "10.0.0.1", "10.0.0.2", "2001:db8::1"].map(|ip| ip.parse().unwrap()).into();
    let text = |from: nodes::gatekeeper::settings::Ends| format!("{:?} {:?}", from.v4, from.v6);
    assert_eq!(text(ends(&shield(SIDES), &back)), "Some(10.0.0.1) Some(2001:db8::1)");
    let said = shield(&format!("{SIDES}from = [\"192.0.2.9\"]\n"));
    assert_eq!(text(ends(&said, &back)), "Some(192.0.2.9) Some(2001:db8::1)");
    assert_eq!(text(ends(&shield(SIDES), &[])), "None None");
    // The one that serves stays while it is there; the file's serve before the kernel lists any.
    let usual = [back[2], back[3]];
    let then = |serving, back: &[IpAddr], had| {
        ends(&shield(SIDES), &candidates(serving, back, &usual, [had; 2]))
    };
    let next = |serving, back: &[IpAddr]| then(serving, back, false);
    let first = ends(&shield(SIDES), &usual);
    assert_eq!(text(first), "Some(10.0.0.2) Some(2001:db8::1)");
    assert_eq!(text(next(first, &[])), text(first));
    assert_eq!(text(next(first, &back)), text(first));
    assert_eq!(text(next(first, &back[..2])), "Some(10.0.0.2) Some(2001:db8::1)");
    // One that has gone does not.
    assert_eq!(text(then(first, &back[..2], true)), "Some(10.0.0.1) None");
    assert_eq!(text(then(first, &[], true)), "None None");
    // Nothing serves: the file's first, whatever the order in which the back has them.
    assert_eq!(text(then(then(first, &[], true), &back, true)), text(first));
}

#[test]
fn a_table_that_does_not_fit_is_refused_before_the_start() {
    let mut most = shield(&format!("{SIDES}entries = 268_435_454\n"));
    most.table.entries *= 1_000;
    let domain = lookup::sync::Domain::new();
    let told = nodes::gatekeeper::settings::Settings::default();
    let settings = std::sync::Arc::new(lookup::sync::Published::new(&domain, told));
    let counters = [nodes::gatekeeper::settings::Counters::new(1)];
    let programs = Programs::new(&[], &domain).unwrap();
    match parts(&most, &settings, &counters, &programs).map(drop) {
        Err(Error::Asked { path, reason }) => {
            assert_eq!(path, ["gatekeeper", "entries"]);
            assert!(reason.starts_with("flow-table refuses: "), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_protection_without_grantors_is_decided_by_the_policy_of_the_same_file() {
    let file = |top: &str, more: &str, rest: &str| {
        format!(
            "{top}{PORTS}[gatekeeper]\n{SIDES}{more}[[gatekeeper.protect]]\n\
             prefix = \"203.0.113.0/24\"\n{rest}"
        )
    };
    let grantor = "[grantor]\npolicy = \"drop\"\n";
    let read = |text: &str| Config::parse("t", text).map_err(|mistakes| mistakes.to_string());
    let both = "role = [\"gatekeeper\", \"grantor\"]\n";
    for top in [both, ""] {
        let config = read(&file(top, "", grantor)).unwrap();
        let shield = Shield::of(&config).unwrap();
        assert_eq!((shield.here, shield.protected[0].options), (Some(10_000), tables::LOCAL));
    }
    let config = read(&file("", "requests = 7\n", &format!("shadow = true\n{grantor}"))).unwrap();
    let shield = Shield::of(&config).unwrap();
    let shadow = tables::LOCAL | nodes::gatekeeper::settings::SHADOW;
    assert_eq!((shield.here, shield.protected[0].options), (Some(7), shadow));
    // A word alone is one role; who names a Grantor is not decided here.
    let named = "grantors = [\"10.0.2.2\"]\n";
    let config = read(&file("role = \"gatekeeper\"\n", "", named)).unwrap();
    assert_eq!(Shield::of(&config).unwrap().here, None);
    let config = read(&file(both, "", &format!("{named}{grantor}"))).unwrap();
    assert_eq!(Shield::of(&config).unwrap().protected[0].options, 0);
    for (text, wanted) in [
        (file("", "", ""), "203.0.113.0/24 has no Grantor"),
        (file(both, "", ""), "role[1]: the file has no table [grantor]"),
        (
            file("role = \"gatekeeper\"\n", "", grantor),
            "`grantor` is missing: the file has a table [grantor]",
        ),
        (file("role = \"router\"\n", "", grantor), "one of gatekeeper, grantor"),
        (file("role = [\"grantor\", \"grantor\"]\n", "", grantor), "`grantor` is given twice"),
        (file("role = 7\n", "", grantor), "role"),
        (file(both, "requests = 0\n", grantor), "from 1 to 100000000"),
    ] {
        let said = read(&text).map(drop).expect_err(&text);
        assert!(said.contains(wanted), "{text}\nsaid:   {said}\nwanted: {wanted}");
    }
}

//! What is understood of `[grantor]`.

use wire::ggu::Verdict;

use super::cells::settings;
use super::read::{Decides, Granting};
use crate::config::{Config, Idle};

const PORT: &str = "[ports.p0]\ndevice = \"mem\"\n[grantor]\n";
const WHO: &str = "gatekeepers = [\"10.0.2.0/24\"]\nserves = [\"10.20.0.0/16\"]\n";

fn good(text: &str) -> Granting {
    let text = [PORT, text].concat();
    let config = Config::parse("t.toml", &text).unwrap_or_else(|it| panic!("{it}\n{text}"));
    Granting::of(&config).unwrap().clone()
}

fn bad(text: &str) -> String {
    Config::parse("t.toml", &[PORT, text].concat()).unwrap_err().to_string()
}

#[test]
fn defaults_are_those_of_the_nodes() {
    let granting = good(&[WHO, "policy = \"grant 1024 300\"\n"].concat());
    let (ours, nodes) = (granting.settings(), nodes::grantor::settings::Settings::default());
    assert_eq!((ours.ports, ours.ecn, ours.shadow), (nodes.ports, nodes.ecn, nodes.shadow));
    assert_eq!((ours.question, ours.limit_ms), (nodes.question, nodes.limit_ms));
    assert_eq!((ours.on_limit, ours.on_full), (nodes.on_limit, nodes.on_full));
    assert_eq!((ours.asked, ours.fragment_ms), (nodes.asked, nodes.fragment_ms));
    assert_eq!(ours.reassemble, nodes.reassemble);
    let granted = Verdict::Granted {
        rate_kib: 1_024,
        expire_s: 300,
        next_renewal_ms: 240_000,
        renewal_step_ms: 3_000,
    };
    let Decides::Words(words) = granting.policy else { panic!("words") };
    assert_eq!(words.0.decision, Some(granted));
}

#[test]
fn verdicts_are_words() {
    for words in ["drop", "forward", "decline 60", "grant 7 8"] {
        let text =
            format!("{WHO}policy = \"drop\"\non_limit = \"{words}\"\non_full = \"{words}\"\n");
        let granting = good(&text);
        assert_eq!(granting.on_limit.to_string(), words);
        assert_eq!(granting.on_full, granting.on_limit);
    }
    for words in ["", "grant", "grant 7", "grant 0 8", "decline", "decline x", "drop 7", "pass"] {
        let text = bad(&format!("{WHO}policy = \"{words}\"\n"));
        assert!(
            text.contains("grantor.policy: expected \"FILE.lua\", \"grant KIB SECONDS\""),
            "{text}"
        );
    }
}

#[test]
fn a_policy_in_a_file_has_its_processes_and_rights() {
    let granting = good(&[WHO, "policy = \"/etc/web.lua\"\n"].concat());
    let Decides::File(file) = granting.policy else { panic!("a file") };
    let usual = policy::cell::Settings::default();
    assert_eq!((file.path.to_str(), file.tables.len()), (Some("/etc/web.lua"), 0));
    assert_eq!((file.processes, file.failures), (usual.processes, usual.failures));
    assert_eq!(u128::from(file.batch_ms), usual.limit.as_millis());
    assert_eq!(u128::from(file.load_ms), usual.load.as_millis());
    assert_eq!(file.memory_mib << 20, usual.memory);
    let text = "policy = \"a.lua\"\npolicy_files = [\"m=/m.txt\"]\nprocesses = 3\nfailures = 9\n\
        engine4 = \"dxr:k=16\"\n";
    let granting = good(&[WHO, text].concat());
    let Decides::File(file) = &granting.policy else { panic!("a file") };
    assert_eq!((file.processes, file.failures), (3, 9));
    assert_eq!(file.tables, [("m".to_owned(), "/m.txt".into())]);
    assert_eq!(settings(file, &granting, (1, Idle::Poll)).engines, ["dxr:k=16", ""]);
    let spin = |idle| settings(file, &granting, (1, idle)).spin;
    assert_eq!([spin(Idle::Adaptive), spin(Idle::Poll)], [usual.spin, None]);

    let rights = |policy: &str| {
        let text = format!("{PORT}{WHO}policy = \"{policy}\"\n");
        crate::apps::privileges(&Config::parse("t.toml", &text).unwrap())
    };
    use rustix::thread::CapabilitySet as Rights;
    assert!(rights("drop").is_empty() && rights("grant 1 1").is_empty());
    assert_eq!(
        rights("a.lua"),
        Rights::SETUID | Rights::SETGID | Rights::KILL | Rights::SYS_CHROOT | Rights::SETPCAP
    );
}

#[test]
fn mistakes_are_named() {
    for (text, want) in [
        ("policy = \"drop\"\nserves = [\"10.0.0.0/8\"]\n", "`gatekeepers` is missing"),
        ("policy = \"drop\"\ngatekeepers = [\"10.0.0.0/8\"]\n", "`serves` is missing"),
        (WHO, "`policy` is missing"),
        ("gatekeepers = []\n", "at least one prefix"),
        ("gatekeepers = [\"10.0.0.1/8\"]\n", "without bits to the right of its length"),
        ("gatekeepers = [\"10.0.0.1\"]\n", "a prefix, such as"),
        (
            "policy = \"drop\"\nprocesses = 2\n",
            "grantor.processes: this key is only for a policy in Lua",
        ),
        ("policy = \"a.lua\"\npolicy_files = [\"m\"]\n", "policy_files[0]: expected NAME=PATH"),
        ("policy = \"a.lua\"\npolicy_files = [\"m=a\", \"m=b\"]\n", "m is given twice"),
        ("policy = \"a.lua\"\nengine4 = \"rutter6\"\n", "grantor.engine4: expected an engine for"),
        ("policy = \"a.lua\"\nengine6 = \"rutter6:k=9\"\n", "grantor.engine6: "),
        (
            "policy = \"drop\"\nengine4 = \"dxr\"\n",
            "grantor.engine4: this key is only for a policy in Lua",
        ),
        ("policy = \"a.lua\"\nprocesses = 0\n", "a whole number from 1 to 32"),
        ("limit_ms = 0\n", "grantor.limit_ms: expected a whole number from 1 to 60000"),
        ("ecn = \"rfc3168\"\n", "grantor.ecn"),
        ("waiting = 65536\n", "waiting packets of all workers"),
        ("fragments = 65536\n", "fragments and packets that wait may take more than half"),
        ("reassemble = true\n", "grantor.reassemble: `fragments` is 0"),
        ("fragment_ms = 0\n", "grantor.fragment_ms: expected a whole number from 1 to 60000"),
        ("waits = 1\n", "unknown key `grantor.waits`"),
    ] {
        let found = bad(text);
        assert!(found.contains(want), "{want}: {found}");
    }
}

//! Every file of every corpus, and every beginning of it, through its target.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rutter_fuzz::graph::reached;
use rutter_fuzz::{IN_STEPS, TARGETS, seeds};

fn corpus(target: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

#[test]
fn corpora() {
    for (name, target) in TARGETS {
        let mut files = 0;
        for entry in fs::read_dir(corpus(name)).unwrap_or_else(|error| panic!("{name}: {error}")) {
            let path = entry.unwrap().path();
            println!("{}", path.display()); // shown when the target panics
            let bytes = fs::read(&path).unwrap();
            target(&bytes);
            // Cut off anywhere near the headers, and here and there behind.
            let most = if IN_STEPS.contains(name) { 2 } else { 256 };
            let step = (bytes.len() / most).max(1);
            (0..bytes.len()).step_by(step).for_each(|len| target(&bytes[..len]));
            files += 1;
        }
        assert!(files > 0, "{name} has no corpus");
    }
}

/// What does not happen is not tested, however long it runs.
#[test]
fn corpora_reach_what_graphs_do() {
    for (target, wanted) in
        [("grantor", GRANTOR), ("graph", GRAPH), ("shield", SHIELD), ("switch", SWITCH)]
    {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for entry in fs::read_dir(corpus(target)).unwrap() {
            let bytes = fs::read(entry.unwrap().path()).unwrap();
            for (name, count) in reached(target, &bytes).unwrap() {
                *counts.entry(name).or_default() += count;
            }
        }
        let missing = wanted.iter().filter(|what| counts.get(**what).is_none_or(|n| *n == 0));
        let missing: Vec<_> = missing.collect();
        assert!(missing.is_empty(), "{target} does not reach {missing:#?} but {counts:#?}");
    }
}

const GRAPH: &[&str] = &[
    "mirrored to a port",
    "mirrored into a file",
    "routed, IPv4",
    "routed, IPv6",
    "routed, to another VRF",
    "routed in a second VRF",
    "several ways",
    "into a bridge",
    "to the routed side",
    "from the kernel",
    "from the kernel, interface gone",
    "handed over",
    "flooded",
    "known station",
    "tag put in",
    "tag taken out",
    "learnt",
    "engine changed",
    "table built anew",
    "listing",
    "scarce",
    "probe",
    "punted as sessions",
    "punted as control",
    "punted as arp_nd",
    "punted as new_neighbours",
    "punted as strangers",
    "punted as for_us",
    "punted as multicast",
    "punted as no_neighbour",
    "punted as ttl_exceeded",
    "punted as unknown",
    "punted as unreachable",
    "punted as via_kernel",
    "ip4_input.bad_checksum",
    "ip4_input.bad_source",
    "ip4_lookup.blackhole",
    "ip4_lookup.martian",
    "ip6_input.v4_mapped",
    "ip6_input.bad_destination",
    "ip4_link_local.link_local",
    "of one link, for us",
    "ip4_source.own_source",
    "ethernet_input.not_for_us",
    "ethernet_input.own_source",
    "ethernet_input.nested_tags",
    "ethernet_input.unknown_vlan",
    "ethernet_input.tag_type",
];

/// Each name but `no_headroom`: a frame that came in has room for its own link header.
const GRANTOR: &[&str] = &[
    "passed",
    "renewals",
    "requests",
    "whole",
    "joined",
    "punished",
    "refused",
    "forwarded",
    "denied",
    "undecided",
    "late",
    "overdue",
    "shed",
    "decisions",
    "messages",
    "unsent",
    "ip4_tunnel.stranger",
    "ip4_tunnel.outer_fragment",
    "ip4_tunnel.mixed_families",
    "ip4_tunnel.inner_version",
    "ip4_tunnel.inner_length",
    "ip4_tunnel.inner_checksum",
    "ip4_tunnel.inner_source",
    "ip4_tunnel.nested",
    "ip4_tunnel.not_served",
    "ip4_tunnel.shadow",
    "ip4_tunnel.congested",
    "ip6_tunnel.stranger",
    "ip6_tunnel.outer_extensions",
    "ip6_tunnel.outer_fragment",
    "ip6_tunnel.mixed_families",
    "ip6_tunnel.inner_version",
    "ip6_tunnel.inner_length",
    "ip6_tunnel.inner_source",
    "ip6_tunnel.inner_extensions",
    "ip6_tunnel.nested",
    "ip6_tunnel.not_served",
    "ip6_tunnel.shadow",
    "ip6_tunnel.congested",
    "ip4_wrapped.outer_options",
    "grantor.denied",
    "grantor.full",
    "grantor.overdue",
    "grantor.copied",
    "grantor.shadow",
    "grantor.congested",
    "grantor.no_port",
    "grantor.no_way",
    "grantor.fragment_length",
    "grantor.fragment_again",
    "grantor.fragment_overlap",
    "grantor.fragment_many",
    "grantor.fragment_late",
    "grantor.fragment_full",
    "grantor.stopped",
];

const SHIELD: &[&str] = &[
    "asked",
    "granted",
    "declined",
    "shadow passed",
    "straight on",
    "decided: granted",
    "decided: declined",
    "decided: by program",
    "too long for the back",
    "ttl exceeded",
    "decisions.heard",
    "decisions.refused",
    "decisions.no_way",
    "group_framed.not_for_us",
    "ip4_front.front_to_back",
    "ip4_front.front_elsewhere",
    "ip6_front.front_elsewhere",
    "shield.declined",
    "shield.discarded",
    "solicit.unresolved",
    "here: asked",
    "here: granted",
    "here: denied",
    "here: undecided",
    "here: decisions",
    "here: refused",
    "here: late",
    "here: renewals",
    "here: whole",
    "asked_here.inner_extensions",
    "asked_here.nested",
    "grantor.copied",
    "grantor.denied",
    "grantor.fragment_again",
    "grantor.fragment_late",
    "grantor.fragment_length",
    "grantor.full",
    "grantor.overdue",
    "grantor.shadow",
    "grantor.stopped",
];

const SWITCH: &[&str] = &[
    "mirrored to a port",
    "mirrored into a file",
    "bridged as it came",
    "known station",
    "flooded",
    "flooded, not trusted",
    "tag put in",
    "tag taken out",
    "tag named",
    "learnt",
    "learnt in the place of another",
    "not learnt: full",
    "not moved: full",
    "seen again",
    "moved",
    "held",
    "held where it was",
    "flushed",
    "aged or replaced",
    "static station",
    "station deleted",
    "stations flushed",
    "into a bridge",
    "to the routed side",
    "handed over",
    "probe",
    "a probe came back",
    "port taken out",
    "loop still there",
    "loop over",
    "bridge_flood.loop_probe",
    "bridge_flood.came_round",
    "bridge_input.loop",
    "bridge_forward.same_port",
    "bridge_forward.isolated",
    "bridge_flood.unknown_rate",
    "bridge_flood.broadcast_rate",
    "bridge_flood.multicast_rate",
    "bridge_flood.alone",
    "bridge_input.bad_source",
    "bridge_input.to_itself",
    "bridge_input.unknown_vlan",
    "bridge_input.reserved_vlan",
    "bridge_input.nested_tags",
    "bridge_input.service_tag",
    "bridge_input.link_local",
    "bridge_input.too_long",
    "bridge_send.to_itself",
];

#[test]
fn each_target_has_its_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz_targets");
    for (name, _) in TARGETS {
        assert!(folder.join(name).with_extension("rs").exists(), "{name}");
    }
    assert_eq!(fs::read_dir(folder).unwrap().count(), TARGETS.len());
}

#[test]
#[ignore = "writes the seeds into the corpora"]
fn write_seeds() {
    for (target, name, bytes) in seeds() {
        fs::create_dir_all(corpus(target)).unwrap();
        fs::write(corpus(target).join(name), bytes).unwrap();
    }
}

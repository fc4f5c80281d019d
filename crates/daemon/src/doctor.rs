//! Deficiencies of this machine, and the exact remedies.

use std::fs;
use std::path::Path;

use crate::kernel::Rtnetlink;
use crate::kernel::neighbours::NeighbourTable;

/// One checked item.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finding {
    /// The item.
    pub what: &'static str,
    /// How it is.
    pub level: Level,
    /// The finding.
    pub found: String,
    /// The remedy; empty where all is well.
    pub remedy: String,
}

/// How a finding is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Level {
    /// All is well.
    Good,
    /// Works; could be faster or safer.
    Better,
    /// Something will not work.
    Missing,
    /// Something does not work.
    Error,
}

impl Level {
    /// The text to show.
    pub fn name(self) -> &'static str {
        match self {
            Level::Good => "ok",
            Level::Better => "better",
            Level::Missing => "missing",
            Level::Error => "error",
        }
    }
}

impl From<Finding> for api::reply::Finding {
    fn from(finding: Finding) -> Self {
        let Finding { what, level, found, remedy } = finding;
        Self { what: what.into(), level: level.name().into(), found, remedy }
    }
}

/// Looks at everything.
pub fn findings() -> Vec<Finding> {
    let mut all = vec![
        privileges(),
        tun(),
        packet_sockets(),
        dpdk(),
        hugepages(),
        transparent_hugepages(),
        cores(),
        governor(),
    ];
    all.extend(of_namespace());
    all
}

/// Looks at what is the network namespace's own.
pub fn of_namespace() -> Vec<Finding> {
    vec![
        nftables(),
        vrf(),
        ipv6_forwarding(),
        neighbours(),
        foreign_routes(),
        rules(),
        source_routes(),
    ]
}

fn good(what: &'static str, found: impl Into<String>) -> Finding {
    Finding { what, level: Level::Good, found: found.into(), remedy: String::new() }
}

fn better(what: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { what, level: Level::Better, found: found.into(), remedy: remedy.into() }
}

fn missing(what: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { what, level: Level::Missing, found: found.into(), remedy: remedy.into() }
}

/// So many, in words that agree with the number.
pub(crate) fn number(count: u64, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_string())
}

/// CAP_NET_ADMIN and CAP_NET_RAW.
fn privileges() -> Finding {
    let status = read("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let capabilities = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    let needed = [(12, "CAP_NET_ADMIN"), (13, "CAP_NET_RAW")];
    let lacking = needed.iter().filter(|(bit, _)| capabilities >> bit & 1 == 0);
    let lacking: Vec<&str> = lacking.map(|(_, name)| *name).collect();
    if lacking.is_empty() {
        return good("privileges", "this process may change the network");
    }
    let found = format!("{} missing: only mem, pcap and null ports work", lacking.join(", "));
    missing("privileges", found, "run as root, or: unshare --user --map-root-user --net")
}

fn tun() -> Finding {
    if Path::new("/dev/net/tun").exists() {
        return good("taps", "/dev/net/tun exists");
    }
    missing("taps", "/dev/net/tun is missing: routed ports do not work", "modprobe tun")
}

fn packet_sockets() -> Finding {
    match ::io::packet_sockets() {
        Ok(()) => {
            good("plain interfaces", "any interface works as packet:IFACE, and idle workers sleep")
        }
        Err(error) => missing(
            "plain interfaces",
            format!("{error}: packet:IFACE does not work"),
            "run as root, on a kernel with packet sockets (modprobe af_packet)",
        ),
    }
}

fn dpdk() -> Finding {
    match io_dpdk::status() {
        Some(status) => good("dpdk", status.version),
        None => missing(
            "dpdk",
            "built without DPDK: only packet, mem, pcap and tap ports",
            "apt-get install libdpdk-dev libclang1-14, then build with the feature `dpdk`",
        ),
    }
}

fn hugepages() -> Finding {
    let pages = |name: &str| -> u64 {
        let text = read("/proc/meminfo").unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(name)).map(str::to_string);
        let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        number.unwrap_or(0)
    };
    let (free, kib) = (pages("HugePages_Free:"), pages("Hugepagesize:"));
    if free * kib >= 256 << 10 {
        return good("hugepages", format!("{} of {kib} KiB free", number(free, "page", "pages")));
    }
    better(
        "hugepages",
        format!("{} MiB free: packet buffers use small pages", free * kib / 1024),
        "echo 256 > /proc/sys/vm/nr_hugepages       (512 MiB; permanent: vm.nr_hugepages=256 in \
         /etc/sysctl.d/)",
    )
}

fn transparent_hugepages() -> Finding {
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    let text = read(path).unwrap_or_default();
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    match chosen.map(|(word, _)| word) {
        Some(word @ ("always" | "madvise")) => good("large pages for tables", word),
        found => better(
            "large pages for tables",
            found.unwrap_or("the kernel does not support them"),
            format!("echo madvise > {path}"),
        ),
    }
}

fn cores() -> Finding {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let isolated = read("/sys/devices/system/cpu/isolated").unwrap_or_default();
    if cores == 1 {
        return better(
            "cores",
            "one: workers and control threads share it",
            "give the machine another core",
        );
    }
    if isolated.is_empty() {
        let others = if cores == 2 { "1".into() } else { format!("1-{}", cores - 1) };
        return better(
            "cores",
            format!("{cores}, none isolated: other processes may run on a worker's core"),
            format!("add isolcpus={others} to the kernel's command line"),
        );
    }
    good("cores", format!("{cores}, isolated: {isolated}"))
}

/// The cores of workers that run.
pub fn cores_of(workers: &[u16]) -> Finding {
    let all = std::fs::read_to_string("/sys/devices/system/cpu/isolated").unwrap_or_default();
    shared_cores(workers, &all)
}

fn shared_cores(workers: &[u16], isolated: &str) -> Finding {
    let ranges = isolated.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<u16>().ok()?..=last.parse::<u16>().ok()?)
    });
    let ranges: Vec<_> = ranges.collect();
    let list = |cores: &[u16]| cores.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
    let shared = workers.iter().filter(|core| !ranges.iter().any(|range| range.contains(core)));
    let shared: Vec<u16> = shared.copied().collect();
    if shared.is_empty() {
        return good("cores", format!("workers on {}, isolated", list(workers)));
    }
    better(
        "cores",
        format!("workers on {}: other processes may run on {}", list(workers), list(&shared)),
        format!("add isolcpus={} to the kernel's command line", list(&shared)),
    )
}

fn governor() -> Finding {
    match read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").as_deref() {
        None => good("clock", "the kernel does not change it"),
        Some("performance") => good("clock", "governor performance"),
        Some(other) => better(
            "clock",
            format!("governor {other}: a core is slow for some time after each pause"),
            "echo performance | tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        ),
    }
}

/// Asked for by opening it: the module is loaded where there is one.
fn nftables() -> Finding {
    use netlink_sys::protocols::NETLINK_NETFILTER;
    match netlink::connection::Netlink::open(NETLINK_NETFILTER) {
        Ok(_) => good("nftables", "the kernel can be kept off the interfaces below ports"),
        Err(error) => better(
            "nftables",
            format!("{error}: the kernel also answers on the interfaces below ports"),
            "modprobe nf_tables",
        ),
    }
}

fn vrf() -> Finding {
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let module = |file: &str| {
        read(&format!("/lib/modules/{release}/{file}")).is_some_and(|all| all.contains("/vrf.ko"))
    };
    let there = Path::new("/sys/module/vrf").exists();
    if there || module("modules.dep") || module("modules.builtin") {
        return good("vrf", "by VRF devices");
    }
    good("vrf", "by `ip rule`, for each tap: the kernel has no VRF devices")
}

fn ipv6_forwarding() -> Finding {
    let one = Path::new("/proc/sys/net/ipv6/conf/default/force_forwarding").exists();
    let all = read("/proc/sys/net/ipv6/conf/all/forwarding");
    match (one, all.as_deref()) {
        (true, _) => good("ipv6 slow path", "per interface"),
        (false, Some("1")) => good("ipv6 slow path", "the kernel forwards on every interface"),
        (false, Some(_)) => {
            good("ipv6 slow path", "net.ipv6.conf.all.forwarding is set while Rutter runs")
        }
        (false, None) => {
            missing("ipv6 slow path", "the kernel has no IPv6", "boot without ipv6.disable=1")
        }
    }
}

fn neighbours() -> Finding {
    let tables = Rtnetlink::open().and_then(|mut kernel| kernel.neighbour_tables());
    let limit = |t: &NeighbourTable| format!("{} of {} (gc_thresh3)", t.most, t.family);
    let limits: Vec<_> = tables.unwrap_or_default().iter().map(limit).collect();
    let limits = limits.join(", ");
    if Path::new("/proc/sys/net/ipv4/neigh/default/gc_thresh3").exists() {
        let found = format!("{limits} now; `neighbours.max` sets them while Rutter runs");
        return good("neighbours", found);
    }
    better(
        "neighbours",
        format!("a network namespace: the limits apply to the whole machine, {limits}"),
        "in the first namespace: sysctl net.ipv4.neigh.default.gc_thresh3=65536 \
         net.ipv6.neigh.default.gc_thresh3=65536",
    )
}

/// Routes by interfaces that are no ports would lead packets out past the data plane:
/// before a router is here those to everywhere, else all.
fn foreign_routes() -> Finding {
    let what = "routes past ports";
    let links = Rtnetlink::open().and_then(|mut kernel| kernel.links()).unwrap_or_default();
    let ours: Vec<_> = links.iter().filter(|link| link.ours).map(|link| &*link.name).collect();
    let (v4, v6) = (read("/proc/net/route"), read("/proc/net/ipv6_route"));
    let found = ways_out(&v4.unwrap_or_default(), &v6.unwrap_or_default(), ours.is_empty());
    let mut names: Vec<_> = found.into_iter().filter(|name| !ours.contains(&&**name)).collect();
    let count = names.len();
    names.sort();
    names.dedup();
    match &names[..] {
        [] => good(what, "none in this namespace"),
        names => better(
            what,
            format!("{count} through {}: packets from ports are not sent there", names.join(", ")),
            "give them to the kernel (`[vrf.main] via_kernel = true`), or run in a namespace",
        ),
    }
}

/// The interface of each route in what the kernel lists (`/proc/net/route`, `ipv6_route`),
/// but for the loopback's and what stays on its link.
fn ways_out(v4: &str, v6: &str, defaults: bool) -> Vec<String> {
    let v4 = v4.lines().skip(1).filter_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (name, to, mask) = (fields.first()?, fields.get(1)?, fields.get(7)?);
        (!defaults || [*to, *mask] == ["00000000"; 2]).then_some(*name)
    });
    let v6 = v6.lines().filter_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (to, len, name) = (fields.first()?, fields.get(1)?, fields.last()?);
        let stays = to.starts_with("fe8") || to.starts_with("ff");
        (!stays && (!defaults || *len == "00")).then_some(*name)
    });
    v4.chain(v6).filter(|name| *name != "lo").map(str::to_string).collect()
}

/// The data plane looks up by destination, in the table of the interface.
fn rules() -> Finding {
    let rules = Rtnetlink::open().and_then(|mut kernel| kernel.foreign_rules());
    let rules = match rules {
        Ok(rules) => rules,
        Err(error) => {
            return missing("policy rules", error.to_string(), "run Rutter where netlink works");
        }
    };
    match &rules[..] {
        [] => good("policy rules", "none but the kernel's own and Rutter's"),
        [first, ..] => better(
            "policy rules",
            format!("{} that the data plane does not follow, the first: {first}", rules.len()),
            "choose tables by interface (`[vrf.NAME]`), or delete the rules (ip rule del)",
        ),
    }
}

/// Routes of IPv6 that hold for some sources only. (Those by TOS, and what a router
/// that runs has met of both: `show capacity`.)
fn source_routes() -> Finding {
    let text = read("/proc/net/ipv6_route").unwrap_or_default();
    let by_source = |line: &&str| line.split_whitespace().nth(3).is_some_and(|len| len != "00");
    match text.lines().filter(by_source).count() {
        0 => good("routes by source", "none"),
        count => better(
            "routes by source",
            format!("{count} of IPv6, which the data plane does not follow"),
            "give these sources an interface of their own, in a VRF (`[vrf.NAME]`)",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_out_are_read_as_the_kernel_lists_them() {
        let v4 = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
            eth0 00000000 0109A8C0 0003 0 0 0 00000000 0 0 0\n\
            eth1 0009A8C0 00000000 0001 0 0 0 00FFFFFF 0 0 0\n";
        let zero = "00000000000000000000000000000000";
        let line = |to: &str, len, name| format!("{to} {len} {zero} 00 {zero} 0 0 0 1 {name}\n");
        let v6 = line(zero, "00", "eth2") + &line(zero, "00", "lo");
        let v6 = v6 + &line("fe800000000000000000000000000000", "40", "eth3");
        let v6 = v6 + &line("20010db8000000000000000000000000", "20", "eth4");
        assert_eq!(ways_out(v4, &v6, true), ["eth0", "eth2"]);
        assert_eq!(ways_out(v4, &v6, false), ["eth0", "eth1", "eth2", "eth4"]);
    }

    #[test]
    fn workers_share_cores_that_are_not_isolated() {
        let found = |workers: &[u16], isolated| {
            let finding = shared_cores(workers, isolated);
            (finding.level, finding.remedy)
        };
        assert_eq!(found(&[1, 2, 5], "1-3,5\n"), (Level::Good, String::new()));
        let (level, remedy) = found(&[0, 2, 4], "1-3,5\n");
        assert!(level == Level::Better && remedy.contains("isolcpus=0,4 "), "{remedy}");
        assert!(found(&[1], "\n").1.contains("isolcpus=1 "));
    }

    #[test]
    fn words_agree_with_their_number() {
        let said = [0, 1, 2].map(|count| number(count, "packet was", "packets were"));
        assert_eq!(said, ["0 packets were", "1 packet was", "2 packets were"]);
    }

    #[test]
    fn whatever_is_not_well_has_a_remedy() {
        for finding in findings() {
            assert!(!finding.found.is_empty() && !finding.what.is_empty());
            assert_eq!(finding.level == Level::Good, finding.remedy.is_empty(), "{finding:?}");
        }
    }
}

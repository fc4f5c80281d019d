//! What the machine reports of its memory: `/proc/meminfo`, and the control groups of this
//! process, of which the narrowest counts.
//!
//! | version | limit                   | in use                  | of that, the files' cache |
//! |---------|-------------------------|-------------------------|---------------------------|
//! | 2       | `memory.max`            | `memory.current`        | `memory.stat`: `active_file`, `inactive_file` |
//! | 1       | `memory.limit_in_bytes` | `memory.usage_in_bytes` | the same, with `total_` before |
//!
//! A limit holds for all groups inside: each from the process's own to the root of the mount
//! is asked. Files that nobody may read, or that are not there, set no limit.

use std::ffi::CString;
use std::sync::OnceLock;

/// Bytes that may be taken without swapping, and without a group's being over its limit.
pub(super) fn available() -> Option<u64> {
    static MOUNTS: OnceLock<Vec<Mount>> = OnceLock::new();
    let mounts = MOUNTS.get_or_init(|| mounts(&read("/proc/self/mountinfo").unwrap_or_default()));
    available_of(mounts, &read)
}

/// The same, of the files that `read` has.
fn available_of(mounts: &[Mount], read: &dyn Fn(&str) -> Option<String>) -> Option<u64> {
    let free = meminfo(&read("/proc/meminfo")?)?;
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    let limits = mounts.iter().filter_map(|mount| mount.left(&groups, read));
    Some(limits.fold(free, u64::min))
}

/// `MemAvailable`: `sysinfo` takes the page cache for used.
fn meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// A mounted tree of groups that can limit memory.
#[derive(Debug, Eq, PartialEq)]
struct Mount {
    version: Version,
    /// The group that is seen at `at`.
    root: String,
    at: String,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Version {
    One,
    Two,
}

/// Those in /proc/self/mountinfo: of version 1 the one that has memory's controller.
fn mounts(mountinfo: &str) -> Vec<Mount> {
    let of = |line: &str| {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3).map(str::to_string);
        let (root, at) = (place.next()?, place.next()?);
        let mut kind = kind.split(' ');
        let version = match (kind.next()?, kind.nth(1)?) {
            ("cgroup2", _) => Version::Two,
            ("cgroup", options) if options.split(',').any(|one| one == "memory") => Version::One,
            _ => return None,
        };
        Some(Mount { version, root, at })
    };
    mountinfo.lines().filter_map(of).collect()
}

impl Mount {
    /// What the groups of this process in this tree leave it, where one has a limit.
    fn left(&self, groups: &str, read: &dyn Fn(&str) -> Option<String>) -> Option<u64> {
        let own = groups.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            let is_it = match self.version {
                Version::Two => controllers.is_empty(),
                Version::One => controllers.split(',').any(|one| one == "memory"),
            };
            is_it.then_some(path)
        })?;
        // A process outside of what is mounted: its container's own is all that it sees.
        let inside = own.strip_prefix(self.root.trim_end_matches('/')).unwrap_or("");
        let mut inside = if inside.starts_with('/') { inside.trim_end_matches('/') } else { "" };
        let mut least = None;
        loop {
            let group = format!("{}{inside}", self.at);
            let left = self.version.left(|file| read(&format!("{group}/{file}")));
            least = left.into_iter().chain(least).min();
            let Some(above) = inside.rfind('/') else { return least };
            inside = &inside[..above];
        }
    }
}

impl Version {
    /// What a group leaves, whose files `read` has.
    fn left(self, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
        let (limit, usage, total) = match self {
            Version::One => ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
            Version::Two => ("memory.max", "memory.current", ""),
        };
        let number = |text: String| text.trim().parse::<u64>().ok();
        let limit = number(read(limit)?).filter(|&limit| limit < UNLIMITED)?;
        let used = number(read(usage)?)?;
        let stat = read("memory.stat").unwrap_or_default();
        let cache = stat.lines().filter_map(|line| {
            let (name, bytes) = line.strip_prefix(total)?.split_once(' ')?;
            ["active_file", "inactive_file"].contains(&name).then(|| bytes.parse().ok())?
        });
        let cache: u64 = cache.fold(0, u64::saturating_add);
        Some(limit.saturating_sub(used.saturating_sub(cache)))
    }
}

/// A whole file of the kernel's, as text.
fn read(path: &str) -> Option<String> {
    let path = CString::new(path).ok()?;
    // SAFETY: the path ends in a zero byte.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return None;
    }
    let (mut text, mut piece) = (Vec::new(), [0; 4096]);
    let whole = loop {
        // SAFETY: `piece` has that many bytes.
        let read = unsafe { libc::read(file, piece.as_mut_ptr().cast(), piece.len()) };
        match usize::try_from(read) {
            Ok(0) => break true,
            Ok(read) => text.extend_from_slice(&piece[..read.min(piece.len())]),
            Err(_) => break false,
        }
    };
    // SAFETY: opened above, closed once.
    unsafe { libc::close(file) };
    String::from_utf8(text).ok().filter(|_| whole)
}

/// What version 1 reports of a group without a limit is this or more: no machine has so much.
const UNLIMITED: u64 = 1 << 60;

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const GB: u64 = 1_000_000_000;
    const MEMINFO: &str =
        "MemTotal:  9 kB\nMemFree: 1 kB\nMemAvailable:  44921875 kB\nBuffers: 0 kB\n";

    /// What there is for a process of these `groups`, with such mounts and such files.
    fn available(mountinfo: &str, groups: &str, files: &[(&str, &str)]) -> Option<u64> {
        let mut all: HashMap<&str, &str> = files.iter().copied().collect();
        all.extend([("/proc/meminfo", MEMINFO), ("/proc/self/cgroup", groups)]);
        available_of(&mounts(mountinfo), &|path| all.get(path).map(|text| text.to_string()))
    }

    const V2: &str =
        "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn without_groups_the_machine_counts() {
        assert_eq!(available("", "", &[]), Some(46 * GB));
        assert_eq!(available(V2, "0::/a.slice\n", &[]), Some(46 * GB), "none reads");
        let unlimited = [("/sys/fs/cgroup/a.slice/memory.max", "max\n")];
        assert_eq!(available(V2, "0::/a.slice\n", &unlimited), Some(46 * GB));
        assert_eq!(meminfo("MemAvailable: many\n"), None);
        assert_eq!(meminfo("MemFree: 4 kB\n"), None);
    }

    #[test]
    fn of_nested_groups_the_narrowest_counts_and_the_cache_of_files_is_free() {
        let groups = "0::/system.slice/rutter.service\n";
        let outer = [
            ("/sys/fs/cgroup/system.slice/memory.max", "30000000000\n"),
            ("/sys/fs/cgroup/system.slice/memory.current", "9000000000\n"),
            (
                "/sys/fs/cgroup/system.slice/memory.stat",
                "anon 7\nfile 3000000000\ninactive_file 1500000000\nactive_file 500000000\n",
            ),
        ];
        assert_eq!(available(V2, groups, &outer), Some(23 * GB));
        let own = [
            ("/sys/fs/cgroup/system.slice/rutter.service/memory.max", "4000000000\n"),
            ("/sys/fs/cgroup/system.slice/rutter.service/memory.current", "5000000000\n"),
        ];
        let both = [outer.as_slice(), own.as_slice()].concat();
        assert_eq!(available(V2, groups, &both), Some(0), "over its limit");
        // In a container of its own namespace.
        let root =
            [("/sys/fs/cgroup/memory.max", "5000000000"), ("/sys/fs/cgroup/memory.current", "1")];
        assert_eq!(available(V2, "0::/\n", &root), Some(5 * GB - 1));
        assert_eq!(available(V2, "0::/../other\n", &root), Some(5 * GB - 1));
    }

    #[test]
    fn version_1_has_other_names_and_a_mount_of_its_own() {
        let mounts = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
                      32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      35 31 0:32 /docker/7f /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let groups = "8:cpu:/docker/7f\n4:memory:/docker/7f/a\n0::/\n";
        let files = [
            ("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "12000000000\n"),
            ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "3000000000\n"),
            (
                "/sys/fs/cgroup/memory/memory.stat",
                "inactive_file 1\ntotal_inactive_file 1000000000\ntotal_active_file 0\n",
            ),
        ];
        assert_eq!(available(mounts, groups, &files), Some(10 * GB));
        // A group whose name only begins as the mount's root is not inside it.
        let beside = "4:memory:/docker/7f0/a\n";
        assert_eq!(available(mounts, beside, &files), Some(10 * GB), "the mount's own");
        assert_eq!(available(mounts, "8:cpu:/x\n", &files), Some(46 * GB), "in no such group");
    }

    #[test]
    #[cfg(not(miri))]
    fn this_machine_reports_what_is_free() {
        assert!(super::available().is_none_or(|bytes| bytes > 0));
        assert_eq!(read("/no/such/file"), None);
        assert_eq!(read("/proc"), None, "a folder");
    }
}

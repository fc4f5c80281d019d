//! The machine that a record comes from.

use std::fs;
use std::process::Command;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::clock;

/// What a figure depends on beside the code.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Machine {
    /// Processor, as it names itself.
    pub cpu: String,
    /// Family, model and stepping, for processors that do not name themselves.
    pub model: String,
    /// Cores that the lab may use.
    pub cores: usize,
    /// The instruction sets that engines choose among.
    pub flags: Vec<String>,
    /// Caches: `L2 2048K`.
    pub caches: Vec<String>,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// Reserved huge pages and transparent ones: `0 reserved, transparent madvise`.
    pub hugepages: String,
    /// True in a virtual machine.
    pub virtual_machine: bool,
    /// Core clock while idle otherwise, in GHz.
    pub core_ghz: f64,
    /// Commit of the source, `-dirty` where files were changed.
    pub commit: String,
    /// Optimised build.
    pub release: bool,
}

impl Machine {
    /// This machine.
    pub fn this() -> Machine {
        let cpuinfo = read("/proc/cpuinfo");
        let field = |name| value(&cpuinfo, name).unwrap_or_default();
        let flags = field("flags");
        let has = |flag: &str| is_word(&flags, flag);
        Machine {
            cpu: field("model name"),
            model: ["cpu family", "model", "stepping"].map(field).join("/"),
            cores: clock::cores().len(),
            flags: FLAGS.iter().filter(|f| has(f)).map(|f| (*f).to_string()).collect(),
            caches: caches(),
            memory_bytes: bytes(&read("/proc/meminfo"), "MemTotal"),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_string(),
            hugepages: hugepages(),
            virtual_machine: has("hypervisor"),
            core_ghz: (clock::core_ghz() * 1000.0).round() / 1000.0,
            commit: commit(),
            release: !cfg!(debug_assertions),
        }
    }

    /// True when figures of `self` and `other` belong together: same hardware,
    /// kernel and source. The measured clock may differ a little.
    pub fn is_same(&self, other: &Machine) -> bool {
        let still = |machine: &Machine| Machine { core_ghz: 0.0, ..machine.clone() };
        still(self) == still(other)
    }

    /// Bytes of the largest cache; `None` where the system names none.
    pub fn largest_cache(&self) -> Option<usize> {
        let bytes = |cache: &String| {
            let size = cache.split(' ').nth(1)?;
            let kib: usize = size.strip_suffix('K')?.parse().ok()?;
            Some(kib << 10)
        };
        self.caches.iter().filter_map(bytes).max()
    }
}

/// True when the processor has this instruction set, named as Linux names it.
pub fn has(flag: &str) -> bool {
    value(&read("/proc/cpuinfo"), "flags").is_some_and(|flags| is_word(&flags, flag))
}

fn is_word(text: &str, word: &str) -> bool {
    text.split_whitespace().any(|other| other == word)
}

/// A checksum of the running program: two builds of one commit may differ in
/// their features.
pub fn build() -> &'static str {
    static BUILD: OnceLock<String> = OnceLock::new();
    BUILD.get_or_init(|| {
        let program = std::env::current_exe().and_then(fs::read).unwrap_or_default();
        let mix = |sum: u64, word: &[u8]| {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            (sum ^ u64::from_le_bytes(bytes)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        };
        format!("{:016x}", program.chunks(8).fold(program.len() as u64, mix))
    })
}

const FLAGS: [&str; 12] = [
    "sse4_2",
    "avx",
    "avx2",
    "bmi1",
    "bmi2",
    "avx512f",
    "avx512bw",
    "avx512vl",
    "avx512vbmi",
    "gfni",
    "pdpe1gb",
    "neon",
];

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn value(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_string())
    })
}

fn caches() -> Vec<String> {
    (0..8)
        .filter_map(|i| {
            let part = |name| {
                let path = format!("/sys/devices/system/cpu/cpu0/cache/index{i}/{name}");
                fs::read_to_string(path).ok().map(|text| text.trim().to_string())
            };
            let kind = part("type").filter(|kind| kind != "Instruction")?;
            let suffix = if kind == "Data" { "d" } else { "" };
            Some(format!("L{}{suffix} {}", part("level")?, part("size")?))
        })
        .collect()
}

/// Of a line of kB.
fn bytes(text: &str, name: &str) -> u64 {
    let size = value(text, name).unwrap_or_default();
    size.split_whitespace().next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) << 10
}

/// Bytes of this process that are on large pages, transparent or reserved; 0 where the kernel does
/// not say.
pub fn large_pages() -> u64 {
    let maps = read("/proc/self/smaps_rollup");
    let kinds = ["AnonHugePages", "Shared_Hugetlb", "Private_Hugetlb"];
    kinds.into_iter().map(|kind| bytes(&maps, kind)).sum()
}

fn hugepages() -> String {
    let reserved = value(&read("/proc/meminfo"), "HugePages_Total").unwrap_or_else(|| "0".into());
    let modes = read("/sys/kernel/mm/transparent_hugepage/enabled");
    // The mode in force is in brackets.
    let mode = modes.split(['[', ']']).nth(1).unwrap_or("off");
    format!("{reserved} reserved, transparent {mode}")
}

/// From the build, or else from the folder that the lab runs in.
fn commit() -> String {
    if let Some(commit) = option_env!("RUTTER_COMMIT") {
        return commit.to_string();
    }
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".into() };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]);
    if changed.is_some_and(|files| !files.is_empty()) { format!("{commit}-dirty") } else { commit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_cache_is_found() {
        let caches = ["L1d 32K", "L3 32768K", "L2 1024K"].map(String::from).to_vec();
        let machine = Machine { caches, ..Machine::default() };
        assert_eq!(machine.largest_cache(), Some(32 << 20));
        assert_eq!(Machine::default().largest_cache(), None);
    }

    #[test]
    fn this_machine_is_itself() {
        let machine = Machine::this();
        assert!(machine.cores >= 1 && machine.memory_bytes > 1 << 20);
        assert!(machine.is_same(&Machine { core_ghz: 1.0, ..machine.clone() }));
        assert!(!machine.is_same(&Machine { kernel: "other".into(), ..machine.clone() }));
    }
}

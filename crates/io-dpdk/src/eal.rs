//! DPDK's environment: started once, on a thread of its own, quietly.

use std::ffi::{CStr, CString, c_char, c_int};
use std::path::Path;
use std::sync::Mutex;

use io::Error;

use crate::{Config, Status, shim};

/// The environment, once it was started.
#[derive(Clone)]
pub(crate) struct Eal {
    pub(crate) config: Config,
    pub(crate) hugepages: bool,
}

/// `None` before the start. A start that failed cannot be tried again: DPDK
/// gives nothing back.
static EAL: Mutex<Option<Result<Eal, String>>> = Mutex::new(None);

/// Starts DPDK, if nobody has.
///
/// # Errors
/// When DPDK refuses, or was started without PCI and `config` asks for it.
pub fn init(config: &Config) -> Result<(), Error> {
    started(config).map(|_| ())
}

/// How DPDK runs; `None` where the build has no DPDK.
pub fn status() -> Option<Status> {
    let eal = lock();
    let hugepages = eal.as_ref().and_then(|eal| eal.as_ref().ok()).map(|eal| eal.hugepages);
    // SAFETY: takes nothing, and can be called before the start.
    let version = unsafe { shim::rutter_version() };
    // SAFETY: a constant C string.
    let version = unsafe { CStr::from_ptr(version) };
    Some(Status { version: version.to_string_lossy().into_owned(), hugepages })
}

pub(crate) fn started(config: &Config) -> Result<Eal, Error> {
    let mut eal = lock();
    let eal = eal.get_or_insert_with(|| start(config));
    match eal {
        Ok(eal) if config.pci && !eal.config.pci => {
            let reason = "DPDK was started without PCI; list the PCI devices first";
            Err(Error::refused("dpdk", "open a PCI device", reason))
        }
        Ok(eal) => Ok(eal.clone()),
        Err(reason) => Err(Error::refused("dpdk", "start", reason)),
    }
}

fn lock() -> std::sync::MutexGuard<'static, Option<Result<Eal, String>>> {
    EAL.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// DPDK pins the thread that starts it; this one ends right after.
fn start(config: &Config) -> Result<Eal, String> {
    let hugepages = config.hugepages.unwrap_or_else(|| enough_hugepages(config));
    let arguments = arguments(config, hugepages);
    let name = "dpdk-start".to_owned();
    let thread = std::thread::Builder::new().name(name).spawn(move || initialise(&arguments));
    let result = thread.map_err(|error| error.to_string())?.join();
    result.map_err(|_| "its start panicked".to_owned())??;
    remove_runtime_dir();
    Ok(Eal { config: config.clone(), hugepages })
}

fn initialise(arguments: &[String]) -> Result<(), String> {
    // DPDK keeps pointers into its arguments: they are never freed.
    let mut argv: Vec<*mut c_char> = arguments
        .iter()
        .map(|word| CString::new(word.as_str()).expect("our words hold no 0").into_raw())
        .collect();
    argv.push(std::ptr::null_mut());
    let argv = argv.leak();
    // SAFETY: sets DPDK's log stream; nothing of DPDK runs yet.
    unsafe { shim::rutter_log_open() };
    // SAFETY: `argv` holds as many C strings as said, a null pointer behind
    // them, and lives for ever.
    let error = unsafe { shim::rutter_eal_init(arguments.len() as c_int, argv.as_mut_ptr()) };
    if error < 0 { Err(explain(error)) } else { Ok(()) }
}

/// DPDK's command line.
fn arguments(config: &Config, hugepages: bool) -> Vec<String> {
    let mut words = vec!["rutter".to_owned(), "--no-telemetry".into()];
    // One lcore for DPDK's own purposes, on whichever CPU we may use; workers
    // are our threads, registered later.
    words.push(format!("--lcores=0@({})", allowed_cpus()));
    words.push("--log-level=*:warning".into());
    words.push(format!("--file-prefix=rutter-{}", std::process::id()));
    if hugepages {
        words.push("--in-memory".into());
    } else {
        words.extend(["--no-huge".into(), "--no-shconf".into()]);
        words.extend(["-m".into(), config.memory_mb.to_string()]);
    }
    if config.pci {
        // An address that cannot be: an allow-list probes nothing by itself.
        words.extend(["-a".into(), "ffff:ff:1f.7".into()]);
    } else {
        words.extend(["--no-pci".into(), "--iova-mode=va".into()]);
    }
    words
}

fn allowed_cpus() -> String {
    // SAFETY: all zero is an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: writes a set of the size that is passed.
    let error = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) };
    let in_set = |cpu: &usize| {
        // SAFETY: `cpu` is below the set's size.
        unsafe { libc::CPU_ISSET(*cpu, &set) }
    };
    let cpus: Vec<String> =
        (0..libc::CPU_SETSIZE as usize).filter(in_set).map(|cpu| cpu.to_string()).collect();
    if error != 0 || cpus.is_empty() { "0".into() } else { cpus.join(",") }
}

/// Whether free hugepages hold two pools and DPDK's own needs, and can be had.
fn enough_hugepages(config: &Config) -> bool {
    let want = 2 * u64::from(config.packets) * (u64::from(config.mtu) + 1024) + (64 << 20);
    free_hugepages() >= want && can_map_hugepage()
}

/// Bytes of free hugepages of every size.
fn free_hugepages() -> u64 {
    let Ok(sizes) = Path::new("/sys/kernel/mm/hugepages").read_dir() else { return 0 };
    let bytes = sizes.flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let free = std::fs::read_to_string(entry.path().join("free_hugepages")).ok()?;
        Some(kib * 1024 * free.trim().parse::<u64>().ok()?)
    });
    bytes.sum()
}

/// Free pages may still be out of reach (a container's limit).
fn can_map_hugepage() -> bool {
    let (access, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB | libc::MAP_POPULATE,
    );
    let bytes = 2 << 20;
    // SAFETY: a fresh anonymous mapping.
    let place = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0) };
    if place == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: just mapped, and used by nobody.
    unsafe { libc::munmap(place, bytes) == 0 }
}

/// DPDK makes it even where it then keeps nothing there.
fn remove_runtime_dir() {
    // SAFETY: a C string that lives as long as the process, or null.
    let dir = unsafe { shim::rutter_runtime_dir() };
    if !dir.is_null() {
        // SAFETY: as above.
        let dir = unsafe { CStr::from_ptr(dir) }.to_string_lossy();
        // Not empty: then DPDK does keep something there.
        let _ = std::fs::remove_dir(&*dir);
    }
}

/// An error number in words, with what DPDK logged about it.
pub(crate) fn explain(error: c_int) -> String {
    let words = std::io::Error::from_raw_os_error(error.abs());
    let log = take_log();
    match (log.is_empty(), error) {
        (true, _) => words.to_string(),
        // Drivers say -1 for all that can go wrong; it is seldom EPERM.
        (false, -1) => log,
        (false, _) => format!("{words}: {log}"),
    }
}

/// The last lines that DPDK logged, joined.
pub(crate) fn take_log() -> String {
    let mut text = [0u8; 4096];
    // SAFETY: writes at most as many bytes as are passed, a 0 among them.
    let len = unsafe { shim::rutter_log_take(text.as_mut_ptr().cast(), text.len()) };
    let text = String::from_utf8_lossy(&text[..len]);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("; ")
}

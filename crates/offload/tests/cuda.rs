//! GPUs: the one of this machine, if there is one, and the driver of the tests
//! (tests/driver/libcuda.c), which is as late as a driver may be, fails where it is asked to, and
//! ends the process where memory is used wrongly. Both have the same test.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Output as Said};
use std::time::Duration;

use lookup::lpm::{Exports, Options};
use lookup::rib::Change;
use lookup::rng::SplitMix64;
use lookup::{Addr, Hop, Prefix, Rib};
use offload::Buffers;
use offload::clock::Clock;
use offload::crew::{Crew, Input, Output, Share};
use offload::device::Device;
use offload::devices::{Cuda, PATIENCE, Threads, gpus};
use offload::fault::Fault;
use offload::table::Table;

/// Addresses in rounds; between two of them the table changes.
struct Rounds<A> {
    rng: SplitMix64,
    rib: Rib<A>,
    /// Each address that was read, and the hop that it has in the table of that moment.
    wanted: Vec<(A, Hop)>,
    left: usize,
    rounds: usize,
}

impl<A: Addr> Rounds<A> {
    fn new(seed: u64, routes: usize) -> Self {
        let mut rng = SplitMix64(seed);
        let rib = (0..routes).map(|_| route(&mut rng)).collect();
        Rounds { rng, rib, wanted: Vec::new(), left: ROUND, rounds: 6 }
    }
}

fn addr<A: Addr>(rng: &mut SplitMix64) -> A {
    // Half of them where most routes are.
    let high = if rng.below(2) == 0 { 0x2001_0db8 << 32 | rng.next() >> 32 } else { rng.next() };
    let wide = u128::from(high) << 64 | u128::from(rng.next());
    A::from_u128(wide >> (128 - u32::from(A::WIDTH)))
}

fn route<A: Addr>(rng: &mut SplitMix64) -> (Prefix<A>, Hop) {
    let len = 4 + rng.below(u64::from(A::WIDTH) - 3) as u8;
    (Prefix::covering(addr(rng), len), Hop(1 + rng.below(1000) as u32))
}

impl<A: Addr> Input<A> for Rounds<A> {
    fn fill(&mut self, dsts: &mut [A]) -> io::Result<usize> {
        let count = dsts.len().min(self.left);
        for dst in &mut dsts[..count] {
            *dst = addr(&mut self.rng);
            let hop = self.rib.lookup(*dst).map_or(Hop::NONE, |(_, hop)| hop);
            self.wanted.push((*dst, hop));
        }
        self.left -= count;
        Ok(count)
    }

    fn changes(&mut self) -> Option<(&Rib<A>, Vec<Change<A>>)> {
        if self.left > 0 || self.rounds == 0 {
            return None;
        }
        (self.left, self.rounds) = (ROUND, self.rounds - 1);
        let some = if self.rounds == 2 { 3000 } else { 20 };
        let changes: Vec<_> = (0..some)
            .map(|i| {
                let (prefix, hop) = route(&mut self.rng);
                Change { prefix, hop: (i % 4 > 0).then_some(hop) }
            })
            .collect();
        for change in &changes {
            self.rib.apply(change);
        }
        Some((&self.rib, changes))
    }
}

struct Answers<A>(Vec<(A, Hop)>);

impl<A: Addr> Output<A> for Answers<A> {
    fn take(&mut self, dsts: &[A], hops: &[Hop]) -> io::Result<()> {
        self.0.extend(dsts.iter().copied().zip(hops.iter().copied()));
        Ok(())
    }
}

/// Every engine that runs on devices, at every depth, beside the cores and alone: each address is
/// answered once, in order, by the table of its moment, whatever becomes of the device.
fn agree<A: Exports>() -> Result<(), Fault> {
    for (name, _) in A::exported() {
        for (depth, share) in [(1, 1.0), (2, 0.5), (4, 1.0)] {
            let mut source = Rounds::<A>::new(depth as u64, 1000);
            let entry = A::engine(name).expect("it is in the registry");
            let table = Table::build(entry, &Options::default(), &source.rib).unwrap();
            let (cores, clock) = (Box::new(Threads::start(1).unwrap()), clock());
            let mut crew = Crew::new(table, cores, 512, 1 << 20, &clock).unwrap();
            let device = Box::new(Cuda::<A>::start_with(0, PATIENCE, &clock)?);
            let joined = crew.join(device, Buffers { size: 700, depth }, Share::Fixed(share));
            let mut answers = Answers(Vec::new());
            crew.run(&mut source, &mut answers).unwrap();
            assert!(answers.0 == source.wanted, "{name} at depth {depth}");
            let [by_device, by_cores] = crew.answered();
            let faults = joined.err().into_iter().chain(crew.take_faults()).map(Err);
            faults.collect::<Result<(), Fault>>()?;
            assert!(by_device > 0 && (by_cores > 0) == (share < 1.0), "{by_device} {by_cores}");
        }
    }
    Ok(())
}

#[test]
fn on_a_gpu() {
    match gpus() {
        Ok(all) if all.is_empty() => return testing::skip("the CUDA driver has found no GPU"),
        Ok(all) => println!("{all:?}"),
        Err(fault) => return testing::skip(fault),
    }
    for done in [agree::<u32>(), agree::<u128>(), probe::<u32>(), probe::<u128>()] {
        match done {
            Err(fault) if is_set("CUDA_FAULT") || is_set("CUDA_HANG") => println!("fault: {fault}"),
            done => done.unwrap(),
        }
    }
}

/// Where the driver of the tests hangs, time passes whenever somebody waits: nobody waits for long.
fn clock() -> Clock {
    if is_set("CUDA_HANG") { Clock::made() } else { Clock::real() }
}

fn is_set(setting: &str) -> bool {
    std::env::var_os(setting).is_some()
}

/// What rates are judged by: it is measured, and what was read and copied is right.
fn probe<A: Exports>() -> Result<(), Fault> {
    let mut gpu = Cuda::<A>::start_with(0, PATIENCE, &clock())?;
    let moment = Duration::from_millis(1);
    for measured in
        [gpu.reads(1 << 20, moment)?, gpu.reads(8 << 20, moment)?, gpu.bus(5000, moment)?]
    {
        assert!(measured.rate > 0.0 && measured.wrong == 0, "{measured:?}");
    }
    let source = Rounds::<A>::new(1, 1000);
    for (name, _) in A::exported() {
        let entry = A::engine(name).expect("it is in the registry");
        let table = Table::build(entry, &Options::default(), &source.rib).unwrap();
        gpu.load(&table)?;
        let mut rng = SplitMix64(5);
        let mut batch = gpu.batch(3000)?;
        batch.fill(3000, |dsts| {
            dsts.iter_mut().for_each(|dst| *dst = addr(&mut rng));
            Ok::<_, Fault>(dsts.len())
        })?;
        let (rate, batch) = gpu.resident(batch, moment)?;
        let wanted = |dst: &A| source.rib.lookup(*dst).map_or(Hop::NONE, |(_, hop)| hop);
        assert!(batch.dsts().iter().map(wanted).eq(batch.hops().iter().copied()), "{name}");
        assert!(rate > 0.0);
    }
    Ok(())
}

#[test]
fn with_the_driver_of_the_tests() {
    let said = on(&driver(), &[]);
    assert!(said.contains("Test GPU 0") && !said.contains("fault"), "{said}");
}

/// At each call, early and late: the cores go on, and the fault is named.
#[test]
fn faults_of_the_driver_of_the_tests() {
    let (driver, calls) = (
        driver(),
        [
            "cuDriverGetVersion@1",
            "cuDeviceGetCount@0",
            "cuDeviceGet@1",
            "cuDeviceGetName@0",
            "cuDeviceTotalMem@1",
            "cuDeviceGetAttribute@0",
            "cuDeviceGetAttribute@5",
            "cuCtxSetCurrent@0",
            "cuCtxSetCurrent@3",
            "cuCtxSetCurrent@99",
            "cuModuleGetFunction@0",
            "cuModuleGetFunction@1",
            "cuInit@0",
            "cuDevicePrimaryCtxRetain@0",
            "cuModuleLoadData@1",
            "cuMemGetInfo@0",
            "cuMemAlloc@0",
            "cuMemAlloc@4",
            "cuMemHostAlloc@1",
            "cuStreamCreate@2",
            "cuEventCreate@1",
            "cuMemcpyHtoDAsync@0",
            "cuMemcpyHtoDAsync@5",
            "cuLaunchKernel@0",
            "cuLaunchKernel@9",
            "cuMemcpyDtoHAsync@3",
            "cuEventRecord@4",
            "cuEventQuery@6",
            "cuStreamQuery@1",
            "cuStreamQuery@20",
        ],
    );
    // Every call that can fail is among them.
    let ours = include_str!("../src/devices/cuda/calls.rs").split("= \"cu").skip(1);
    for name in ours.filter_map(|rest| rest.split(['"', '_']).next()) {
        let frees = ["Free", "Destroy", "Unload", "Release", "GetError"];
        let is_tested = calls.iter().any(|call| call.starts_with(&format!("cu{name}@")));
        assert!(is_tested || frees.iter().any(|word| name.contains(word)), "cu{name}");
    }
    for call in calls {
        let said = on(&driver, &[("CUDA_FAULT", call)]);
        assert!(said.contains("unspecified launch failure (CUDA_ERROR_LAUNCH_FAILED)"), "{said}");
        // Codes that CUDA 12.0 does not have: a later driver may return any.
        for code in ["915", "-1"] {
            let said = on(&driver, &[("CUDA_FAULT", call), ("CUDA_CODE", code)]);
            assert!(said.contains(&format!(": error {code}\n")), "{said}");
        }
    }
    let said = on(&driver, &[("CUDA_FAULT", "none"), ("CUDA_MEMORY", "100000")]);
    assert!(said.contains("Test GPU 0: 1 MiB wanted, 0 MiB free"), "{said}");
    for (setting, value, words) in [
        ("CUDA_VERSION", "11080", "the CUDA driver is for CUDA 11.8; 12.0 or later is needed"),
        ("CUDA_DEVICES", "0", "the CUDA driver has found no GPU"),
        ("CUDA_FAULT", "cuInit@0", "the CUDA driver does not start: unspecified launch failure"),
    ] {
        let said = on(&driver, &[(setting, value)]);
        assert!(said.contains(words), "{said}");
    }
}

/// From a write of the table to late batches and the probe: each address is answered, and no call is
/// made that would wait for the device, at the end neither.
#[test]
fn a_device_that_hangs_counts_as_lost() {
    let driver = driver();
    for after in [0, 1, 2, 3, 5, 9, 20, 77, 300, 1000] {
        let said = on(&driver, &[("CUDA_HANG", &format!("stream@{after}"))]);
        assert!(said.contains("Test GPU 0 was lost at "), "{after}: {said}");
        assert!(said.contains(": no answer for 30 s\n"), "{after}: {said}");
    }
    // Once one was lost, the driver is not called for it again.
    let said = on(&driver, &[("CUDA_HANG", "stream@0")]);
    assert_eq!(said.matches("no answer for 30 s").count(), 4, "{said}");
}

/// The driver, as the library that `cudarc` looks for.
fn driver() -> PathBuf {
    let folder =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("driver-{}", testing::name()));
    fs::create_dir_all(&folder).unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/driver/libcuda.c");
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-O2", "-shared", "-fPIC", "-pthread", source, "-o"]);
    let made = cc.arg(folder.join("libcuda.so.1")).status().expect("a C compiler built this crate");
    assert!(made.success());
    folder
}

/// What [`on_a_gpu`] says with this driver.
fn on(driver: &PathBuf, settings: &[(&str, &str)]) -> String {
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args(["--exact", "on_a_gpu", "--nocapture"]).env("LD_LIBRARY_PATH", driver);
    test.env_remove("RUTTER_STRICT").env_remove("RUTTER_SKIPS").envs(settings.iter().copied());
    let Said { status, stdout, stderr } = test.output().unwrap();
    let said = [stdout, stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    assert!(status.success(), "{settings:?}: {said}");
    said
}

/// Addresses between two changes.
const ROUND: usize = 5000;

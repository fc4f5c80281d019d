//! `rutter lookup` of many addresses: devices and raw numbers.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use common::{RUTTER, Scratch, rutter_with};

const TABLE: &str = "\
10.0.0.0/8 gw-a
10.1.0.0/16 gw-b
192.0.2.0/24 gw-c
2001:db8::/32 gw-d
2001:db8:1::/48 gw-b
";

/// Where a device is lost before the first address: in the trial at the start.
const LOST: [&str; 4] = ["load", "submit@1", "run", "collect@1"];

fn v4() -> impl Iterator<Item = Ipv4Addr> {
    let near = |i: u32| 0x0a00_0000 + i.wrapping_mul(0x9e37) % (1 << 18);
    (0..60_000_u32)
        .map(move |i| if i % 3 == 0 { i.wrapping_mul(0x9e37_79b1) } else { near(i) }.into())
}

fn v6() -> impl Iterator<Item = Ipv6Addr> {
    (0..20_000_u128).map(|i| (0x2001_0db8_u128 << 96 | (i % 5) << 80 | i).into())
}

/// Runs with bytes on its standard input.
fn run(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(RUTTER)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    let mut stdin = child.stdin.take().expect("it is piped");
    std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output().expect("it ends")
    })
}

/// The cores beside a device: who sets their number keeps the device, however slow it is.
const BESIDE: [&str; 2] = ["--threads", "1"];

/// All devices, and how they fail.
fn devices() -> Vec<String> {
    let mut all = vec!["auto".to_string(), "threads".into(), "model".into(), "cuda".into()];
    all.extend(["model:memory=1000", "model:depth=1", "model:depth=16"].map(String::from));
    all.extend(LOST.map(|lost| format!("model:rate=1e8,lost={lost}")));
    all
}

#[test]
fn every_device_answers_as_one_thread_does_also_where_it_is_lost() {
    let scratch = Scratch::new();
    let table = scratch.file("table", TABLE);
    let mut addresses = String::new();
    for (i, v4) in v4().enumerate() {
        addresses += &format!("{v4}\n");
        if let Some(v6) = v6().nth(i).filter(|_| i < 300) {
            addresses += &format!("{v6} ");
        }
    }
    let plain = rutter_with(&["lookup", "--table", &table], &addresses);
    assert_eq!(plain.status, 1);
    for device in devices() {
        let engine = if device.len() % 2 == 0 { "rutter4" } else { "bloomfwd" };
        let args = [&["lookup", "--table", &table, "--device", &device][..], &BESIDE].concat();
        let done = rutter_with(&args, &addresses);
        assert_eq!(done.status, 1, "{device}: {}", done.err);
        assert!(done.out == plain.out, "{device}");
        // Where there is no GPU, that is reported.
        let fails = ["memory", "lost", "cuda"].iter().any(|word| device.contains(word));
        assert!(fails || done.err.is_empty(), "{device}: {}", done.err);
        let raw: Vec<u8> = v4().flat_map(|addr| addr.octets()).collect();
        let done = run(&[&args[..], &["--engine", engine, "--raw", "ipv4"]].concat(), &raw);
        let err = String::from_utf8(done.stderr).unwrap();
        assert!(fails || err.is_empty(), "{device}: {err}");
        assert!(err.lines().all(|line| line.ends_with("; the cores go on alone")), "{err}");
        let text: String = v4().map(|addr| format!("{addr}\n")).collect();
        let lines = rutter_with(&["lookup", "--table", &table, "--no-prefix"], &text).out;
        assert_eq!(done.stdout.len(), 4 * 60_000, "{device}");
        for (line, hop) in lines.lines().zip(done.stdout.chunks(4)) {
            let name = ["-", "gw-a", "gw-b", "gw-c"][usize::from(hop[3])];
            assert!(hop[..3] == [0; 3] && line.ends_with(&format!("\t{name}")), "{device} {line}");
        }
    }
}

/// In mid-run, at each stage: a trial of this model takes eight pieces, 4 ms each, and no more. A
/// device may get nothing in a run while the machine is busy: there are more runs then.
#[test]
fn a_device_lost_in_mid_run_loses_no_address() {
    let scratch = Scratch::new();
    let ipv4: String = TABLE.split_inclusive('\n').filter(|line| !line.contains(':')).collect();
    let table = scratch.file("table", &ipv4);
    let raw: Vec<u8> = v4().flat_map(|addr| addr.octets()).collect();
    let text: String = v4().map(|addr| format!("{addr}\n")).collect();
    let plain = ["lookup", "--table", &table, "--no-prefix"];
    for (way, input) in [(&["--raw", "ipv4"][..], raw.repeat(30)), (&[], text.repeat(30).into())] {
        let plain = [&plain[..], way].concat();
        let wanted = run(&plain, &input);
        for stage in ["submit", "copy-in", "run", "copy-out", "collect"] {
            for times in [8, 10] {
                let device = format!("model:rate=1e8,lost={stage}@{times}");
                // An engine with which the cores are slower than the device.
                let more = ["--device", &device, "--buffer", "400000", "--engine", "miht"];
                let args = [&plain[..], &more, &BESIDE].concat();
                let err = |done: &Output| String::from_utf8(done.stderr.clone()).unwrap();
                assert_eq!(err(&run(&args, b"")), "", "the trial is over before");
                let mut runs = std::iter::repeat_with(|| run(&args, &input));
                let done = runs.by_ref().take(5).find(|done| !done.stderr.is_empty());
                let done = done.expect("the device is lost");
                let lost = format!("(100 million lookups/s, 12.0 GB/s) was lost at {stage}");
                let says =
                    format!("rutter: model {lost}: as its model says; the cores go on alone\n");
                assert_eq!((err(&done), done.status), (says, wanted.status));
                assert!(done.stdout == wanted.stdout, "{way:?} {device}");
            }
        }
    }
}

#[test]
fn pieces_of_a_size_that_is_given_or_within_a_time() {
    let scratch = Scratch::new();
    let table = scratch.file("table", TABLE);
    let raw: Vec<u8> = v4().flat_map(|addr| addr.octets()).collect();
    let args = ["lookup", "--table", &table, "--raw", "ipv4", "--device", "model"];
    let args = [&args[..], &BESIDE].concat();
    let plain = run(&args, &raw);
    for more in [["--latency", "1"], ["--buffer", "777"], ["--buffer", "67108864"]] {
        let done = run(&[&args[..], &more].concat(), &raw);
        assert_eq!(done.stdout, plain.stdout, "{more:?}");
        assert!(done.stderr.is_empty(), "{more:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
    for wrong in [&["--latency", "0"][..], &["--buffer", "0"], &["--buffer", "1", "--latency", "1"]]
    {
        assert_eq!(run(&[&args[..], wrong].concat(), &raw).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn a_device_that_does_less_than_the_core_that_feeds_it_is_left_out() {
    let scratch = Scratch::new();
    let table = scratch.file("table", TABLE);
    let raw: Vec<u8> = v4().flat_map(|addr| addr.octets()).collect();
    let args = ["lookup", "--table", &table, "--raw", "ipv4", "--device"];
    let done = run(&[&args[..], &["model:rate=1e5"]].concat(), &raw);
    let err = String::from_utf8(done.stderr).unwrap();
    // One core would have to feed it anyway.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    assert_eq!(err.lines().count(), cores.min(2) - 1, "{err}");
    assert!(
        err.lines().all(|line| line.ends_with("; all cores go on without it until it does more")),
        "{err}"
    );
    assert_eq!(done.stdout, run(&[&args[..], &["threads"]].concat(), &raw).stdout);
    let kept = run(&[&args[..], &["model:rate=1e5"], &BESIDE].concat(), &raw);
    assert!(kept.stderr.is_empty() && kept.stdout == done.stdout);
}

/// The driver of `offload`'s tests, a GPU as far as the command can see, in a folder of its own.
fn driver(scratch: &Scratch) -> PathBuf {
    let folder = PathBuf::from(scratch.file("driver", "")).with_file_name("");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../offload/tests/driver/libcuda.c");
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-O2", "-shared", "-fPIC", "-pthread", source, "-o"]);
    assert!(cc.arg(folder.join("libcuda.so.1")).status().expect("a C compiler").success());
    folder
}

/// Whatever driver this machine has, it is not found: files that are no libraries come first, or one
/// without the functions of a driver.
#[test]
fn without_a_driver_the_reason_is_named_and_the_cores_answer() {
    let scratch = Scratch::new();
    let table = scratch.file("table", TABLE);
    let folder = |name: &str| {
        let folder = PathBuf::from(scratch.folder()).join(name);
        fs::create_dir(&folder).unwrap();
        folder
    };
    let (none, part) = (folder("none"), folder("part"));
    for name in ["libcuda.so", "libcuda.so.1"] {
        fs::write(none.join(name), "no library").unwrap();
        let source = scratch.file("part.c", "int cuDriverGetVersion(int *v) { return *v = 0; }");
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", &source, "-o"]).arg(part.join(name));
        assert!(cc.status().expect("a C compiler").success());
    }
    let no_driver =
        "there is no CUDA driver (libcuda.so.1) on this machine: NVIDIA's driver brings it";
    let text = scratch.file("text", "10.0.0.1\n2001:db8::1\n".repeat(30_000));
    let raw = scratch.file("raw", [10, 0, 0, 1].repeat(30_000));
    for (way, input) in [(&[][..], text), (&["--raw", "ipv4"], raw)] {
        let answer = |device: &[&str], libraries: &PathBuf| {
            let mut command = Command::new(RUTTER);
            command.args(["lookup", "--table", &table]).args(way).args(device);
            command.env("LD_LIBRARY_PATH", libraries).stdin(fs::File::open(&input).unwrap());
            let done = command.output().expect("the binary was built");
            assert_eq!(done.status.code(), Some(0), "{device:?}");
            (done.stdout, String::from_utf8(done.stderr).unwrap())
        };
        let (wanted, _) = answer(&[], &none);
        for (device, libraries, why) in [
            ("cuda", &none, no_driver),
            ("cuda", &part, "the CUDA driver does not start: it has no cuInit"),
            ("auto", &part, "the CUDA driver does not start: it has no cuInit"),
        ] {
            let (answers, err) = answer(&["--device", device], libraries);
            assert_eq!(err, format!("rutter: {why}; the cores go on alone\n"));
            assert!(answers == wanted, "{device} {way:?}");
        }
        // Who leaves the choice to Rutter misses nothing.
        assert!(answer(&["--device", "auto"], &none) == (wanted, String::new()));
    }
}

/// What an input without an end brought.
struct Talk {
    /// Addresses of [`v4`] that were asked, and how often.
    rounds: usize,
    /// Whether it warned before the input's end.
    warned: bool,
    out: Vec<u8>,
    err: String,
    status: Option<i32>,
}

/// As [`talk`]. A device that was tried while the machine was busy may get nothing in a run, and so
/// is not lost in it: there are more runs then, as many as a machine may be busy for.
fn until_it_warns(command: &mut Command, begun: impl Fn(bool)) -> Talk {
    let runs = std::iter::repeat_with(|| {
        begun(false);
        talk(command, || begun(true))
    });
    runs.take(25).find(|talk| talk.warned).expect("it warns before the input's end")
}

/// Gives raw addresses until it warns, or has had far too many; then the input ends. `begun` is
/// called once it answers.
fn talk(command: &mut Command, begun: impl FnOnce()) -> Talk {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary was built");
    let mut stdin = child.stdin.take().expect("it is piped");
    let (mut stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let (answers, warned) = (&AtomicBool::new(false), &AtomicBool::new(false));
    let (chunk, mut rounds): (Vec<u8>, _) = (v4().flat_map(|addr| addr.octets()).collect(), 0);
    let is_set = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
    let mut ask = |stdin: &mut ChildStdin, until: &AtomicBool| {
        while !is_set(until) && rounds < 1000 {
            stdin.write_all(&chunk).expect("it reads");
            rounds += 1;
        }
        rounds
    };
    std::thread::scope(|scope| {
        let out = scope.spawn(move || {
            let mut out = vec![0];
            stdout.read_exact(&mut out).expect("it answers");
            answers.store(true, Ordering::Relaxed);
            stdout.read_to_end(&mut out).expect("it answers on");
            out
        });
        let err = scope.spawn(move || {
            let lines = BufReader::new(stderr).lines().map(|line| line.expect("it is text") + "\n");
            lines.inspect(|_| warned.store(true, Ordering::Relaxed)).collect()
        });
        ask(&mut stdin, answers);
        begun();
        let rounds = ask(&mut stdin, warned);
        let warned = is_set(warned);
        drop(stdin);
        let (out, err) = (out.join().unwrap(), err.join().unwrap());
        let status = child.wait().expect("it ends").code();
        Talk { rounds, warned, out, err, status }
    })
}

/// Who reads raw addresses has no end to wait for: the warning comes in between. 300 batches of this
/// model take longer than it is tried, which is 20 ms.
#[test]
fn a_lost_device_is_reported_at_once() {
    let scratch = Scratch::new();
    let table = scratch.file("table", TABLE);
    let args = ["lookup", "--table", &table, "--raw", "ipv4"];
    let once = run(&args, &v4().flat_map(|addr| addr.octets()).collect::<Vec<u8>>()).stdout;
    let mut command = Command::new(RUTTER);
    command.args(args).args(["--device", "model:rate=1e9,lost=run@300", "--buffer", "100000"]);
    let Talk { rounds, out, err, status, .. } = until_it_warns(command.args(BESIDE), |_| ());
    assert!(err.ends_with(" was lost at run: as its model says; the cores go on alone\n"), "{err}");
    assert_eq!((err.lines().count(), status), (1, Some(1)));
    assert!(out == once.repeat(rounds));
}

/// A driver whose device hangs is given up; each address is answered once, and the command ends.
#[test]
fn a_device_that_hangs_is_given_up() {
    let scratch = Scratch::new();
    let table = scratch.file("table", TABLE);
    let folder = driver(&scratch);
    let args = ["lookup", "--table", &table, "--device", "cuda:wait=1"];
    let args = [&args[..], &BESIDE].concat();
    let lost = "Test GPU 0 was lost at collect: no answer for 1 s; the cores go on alone\n";
    let cuda = |args: &[&str], from: &str| {
        let mut command = Command::new(RUTTER);
        command.args(args).env("LD_LIBRARY_PATH", &folder).env("CUDA_MEMORY", "4000000000");
        // The end of the process waits for the device, too.
        command.env("CUDA_HANG", "stream@0").env("CUDA_FROM", from).env("CUDA_END", "waits");
        command
    };
    // In the middle of the run.
    let raw: Vec<u8> = v4().flat_map(|addr| addr.octets()).collect();
    let once = run(&["lookup", "--table", &table, "--raw", "ipv4"], &raw).stdout;
    let from = folder.join("from");
    let mut command = cuda(&[&args[..], &["--raw", "ipv4"]].concat(), from.to_str().unwrap());
    let talk = until_it_warns(&mut command, |begun| {
        let done = if begun { fs::write(&from, "") } else { fs::remove_file(&from) };
        assert!(done.is_ok() || !begun, "{done:?}");
    });
    assert_eq!((talk.status, talk.err), (Some(1), format!("rutter: {lost}")));
    assert!(talk.out == once.repeat(talk.rounds));
    // At the table of the first family; for the second nothing waits again.
    let addresses =
        scratch.file("addresses", v4().map(|addr| format!("{addr}\n")).collect::<String>());
    let file = || fs::File::open(&addresses).expect("it was written");
    let plain =
        Command::new(RUTTER).args(["lookup", "--table", &table]).stdin(file()).output().unwrap();
    let done = cuda(&args, "/").stdin(file()).output().unwrap();
    assert!(done.stdout == plain.stdout && done.status.code() == Some(1));
    let err = String::from_utf8(done.stderr).unwrap();
    assert_eq!(err, format!("rutter: {}", lost.replace("collect", "load")));
    for wrong in [
        "cuda:wait=0",
        "cuda:wait=x",
        "cuda:gpu=-1",
        "cuda:depth=0",
        "model:depth=17",
        "cuda:who=1",
    ] {
        let args = ["lookup", "--table", &table, "--device", wrong];
        assert_eq!(run(&args, b"").status.code(), Some(2), "{wrong}");
    }
}

/// A table of two families has two crews at one device.
#[test]
fn warnings_about_a_device_come_once() {
    let scratch = Scratch::new();
    let table = scratch.file("table", TABLE);
    let folder = driver(&scratch);
    let addresses = "10.0.0.1 2001:db8::1\n".repeat(30_000);
    let addresses = scratch.file("addresses", &addresses);
    let plain =
        rutter_with(&["lookup", "--table", &table], &fs::read_to_string(&addresses).unwrap());
    for (device, says) in [
        ("cuda", "there is no GPU 0: the CUDA driver has found 0"),
        ("model:lost=load", "was lost at load: as its model says"),
        ("model:lost=run@0", "was lost at run: as its model says"),
    ] {
        let mut command = Command::new(RUTTER);
        command.args(["lookup", "--table", &table, "--device", device]).args(BESIDE);
        command.env("LD_LIBRARY_PATH", &folder).env("CUDA_DEVICES", "0");
        let done = command.stdin(fs::File::open(&addresses).unwrap()).output().unwrap();
        let err = String::from_utf8(done.stderr).unwrap();
        assert!(err.lines().count() == 1 && err.contains(says), "{device}: {err}");
        assert!(done.stdout == plain.out.as_bytes(), "{device}");
    }
}

#[test]
fn options_without_effect_are_named() {
    let scratch = Scratch::new();
    let table = scratch.file("table", TABLE);
    let device = ["--device", "threads"];
    let both = ["--device", "threads", "--threads", "2"];
    for (more, which) in [
        (&device[..], "addresses in arguments are looked up one by one: --device has no effect"),
        (&BESIDE, "addresses in arguments are looked up one by one: --threads has no effect"),
        (
            &both,
            "addresses in arguments are looked up one by one: --device and --threads have no effect",
        ),
    ] {
        for json in [&[][..], &["-j"]] {
            let args = ["lookup", "--table", &table, "10.0.0.1"];
            let plain = run(&[&args[..], json].concat(), b"");
            let done = run(&[&args[..], more, json].concat(), b"");
            let which = if json.is_empty() {
                which.into()
            } else {
                which.replace("in arguments", "with -j")
            };
            assert_eq!(String::from_utf8(done.stderr).unwrap(), format!("rutter: {which}\n"));
            assert_eq!((done.status.code(), done.stdout), (Some(0), plain.stdout));
        }
    }
    let args = ["lookup", "--table", &table, "--device"];
    let done = run(&[&args[..], &["threads", "-j"]].concat(), b"10.0.0.1");
    assert_eq!(
        done.stderr,
        b"rutter: addresses with -j are looked up one by one: --device has no effect\n"
    );
    let done = run(&[&args[..], &["threads", "--buffer", "9"]].concat(), b"10.0.0.1");
    assert_eq!(done.stderr, b"rutter: --buffer has no effect with --device threads\n");
    // Beside addresses from standard input, for which it is.
    let done = run(&[&args[..], &["threads", "10.0.0.1", "-"]].concat(), b"10.0.0.1");
    assert_eq!((done.status.code(), done.stderr.as_slice()), (Some(0), &b""[..]));
}

/// An answer comes before the next question and before the end. Both ends of a pipe see its size.
#[test]
fn questions_through_pipes_are_answered_one_by_one() {
    let scratch = Scratch::new();
    let table = scratch.file("table", TABLE);
    let raw = |device| ["--raw", "ipv4", "--device", device];
    for (args, question) in [
        (&[][..], &b"10.0.0.1\n"[..]),
        (&["--raw", "ipv4"], &[10, 0, 0, 1]),
        (&raw("threads"), &[10, 0, 0, 1]),
        (&raw("model:rate=1e9"), &[10, 0, 0, 1]),
    ] {
        let mut command = Command::new(RUTTER);
        command.args(["lookup", "--table", &table]).args(args).stderr(Stdio::null());
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("the binary was built");
        let (mut to, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut answers = Vec::new();
        for _ in 0..3 {
            to.write_all(question).unwrap();
            let mut answer = [0; 64];
            let n = from.read(&mut answer).unwrap();
            answers.push(answer[..n].to_vec());
        }
        assert!(!answers[0].is_empty() && answers.iter().all(|answer| *answer == answers[0]));
        let sizes = [to.as_fd(), from.as_fd()].map(rustix::pipe::fcntl_getpipe_size);
        drop(to);
        assert!(child.wait().unwrap().success());
        let most = fs::read_to_string("/proc/sys/fs/pipe-max-size").unwrap();
        let wanted = most.trim().parse().map_or(0, |most: usize| most.min(1 << 20));
        assert!(sizes.iter().all(|size| size.is_ok_and(|size| size >= wanted)), "{sizes:?}");
    }
}

#[test]
fn raw_ipv6_and_what_is_no_whole_address() {
    let scratch = Scratch::new();
    let table = scratch.file("table", TABLE);
    let mut raw: Vec<u8> = v6().flat_map(|addr| addr.octets()).collect();
    let args = ["lookup", "--table", &table, "--raw", "ipv6"];
    let done = run(&args, &raw);
    assert_eq!((done.status.code(), done.stderr.as_slice()), (Some(0), &b""[..]));
    let hops = done.stdout.chunks(4).map(|hop| u32::from_be_bytes(hop.try_into().unwrap()));
    assert!(hops.eq(v6().map(|addr| if addr.segments()[2] == 1 { 2 } else { 4 })));
    raw.extend([1, 2, 3]);
    let cut = run(&args, &raw);
    assert_eq!((cut.status.code(), cut.stdout == done.stdout), (Some(2), true));
    let err = String::from_utf8(cut.stderr).unwrap();
    assert_eq!(err, "rutter: standard input: 3 bytes are left after the last 16-byte address\n");
    for (more, why) in
        [(&["-j"][..], "--json"), (&["-e", "rutter4"], "family"), (&["10.0.0.1"], "cannot be used")]
    {
        let refused = run(&[&args[..], more].concat(), b"");
        let err = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.status.code() == Some(2) && err.contains(why), "{err}");
    }
    assert_eq!(run(&args, b"").status.code(), Some(0), "nothing asked, nothing missing");
}

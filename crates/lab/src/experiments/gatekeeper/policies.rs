//! `gatekeeper/policies`: how many packets a policy in Lua decides about, alone and through the
//! rings of a Grantor, and how long a lone packet waits for its verdict.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use policy::ask::{Asker, Verdict as Answer};
use policy::cell::trial::{Setup, Trial};
use policy::cell::{Desk, Handle, Settings, Source, Supervisor, lacks};
use policy::trial::{BATCH, Request, USUAL};
use wire::build::Frame;

use crate::record::{Bound, Figure};
use crate::{Card, Context, Error, Experiment, Plot, Record, Row, Style, Takes, Verdict, clock};

/// See the module.
pub struct Policies;

impl Experiment for Policies {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn judge(&self, rows: &[Row]) -> Vec<Verdict> {
        verdicts(rows)
    }

    fn run(&self, context: &mut Context) -> Result<Record, Error> {
        let missing = |what| Error::Missing { experiment: CARD.name, what };
        if let Some(what) = lacks().into_iter().next() {
            return Err(missing(what));
        }
        let rows = context.cells([ALONE, RINGS, LONE], |context, part| match *part {
            ALONE => alone(context),
            RINGS => rings(context),
            _ => lone(context),
        })?;
        let verdicts = self.judge(&rows);
        Ok(context.record(rows, verdicts, NOTES.map(String::from).into()))
    }
}

const CARD: Card = Card {
    name: "gatekeeper/policies",
    takes: Takes { full_s: 30.0, quick_s: 4.0 },
    help: "what a policy in Lua decides about in a second, alone and in a Grantor's processes",
    source: "issue on policies and Grantor; study of Gatekeeper, F4 and F5",
    claim: "≥ 20 M decisions a second by batches, ≥ 5 M one by one; a lone packet's verdict within 50 µs",
    plots: &[Plot {
        title: "Decisions by a core",
        figure: RATE,
        unit: "M/s",
        x: "at once",
        series: "policy",
        panels: &["part"],
        style: Style::Bars,
    }],
};

const NOTES: [&str; 4] = [
    "the policy: sources that cannot be by lpmlib, web servers by TCP and UDP, the rest; IPv4 and IPv6 in turn; its \
     verdicts are compared with a model's",
    "alone: the calls in the policy's process, without rings; 64 at once are one call into Lua, of lookup_policy_batch \
     where the policy has it, else of a loop over lookup_policy",
    "rings: from the question to the checked verdict, by one worker on a core of its own; processes share the others, \
     and sleep after 50 µs without a question where there are fewer of those than processes",
    "a lone packet: from the question to the checked verdict in a loop that does nothing else; the node that asks, \
     its graph and the ports are not in it",
];

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let of = |labels: &[(&str, &str)], figure: &str| {
        rows.iter().find(|row| row.is(labels)).and_then(|row| row.median(figure))
    };
    let verdict = |text: &str, found: Option<f64>, (least, most), unit: &str| {
        let found: Vec<_> = found.into_iter().collect();
        Bound::within(least, most).ours().judge(text, &found, unit)
    };
    let rate =
        |policy, at_once| of(&[("part", ALONE), ("policy", policy), ("at once", at_once)], RATE);
    vec![
        verdict(
            "by batches: 20 to 200 M decisions a second",
            rate(BATCHED, "64"),
            (20.0, 200.0),
            "M/s",
        ),
        verdict(
            "one by one: 5 to 100 M decisions a second",
            rate(SINGLE, "1"),
            (5.0, 100.0),
            "M/s",
        ),
        verdict(
            "by batches: 3 to 10 × as many as one by one",
            rate(BATCHED, "64").zip(rate(SINGLE, "1")).map(|(many, one)| many / one),
            (3.0, 10.0),
            "×",
        ),
        verdict(
            "a lone packet has its verdict within 0.1 to 50 µs",
            of(&[("part", LONE)], "µs"),
            (0.1, 50.0),
            "µs",
        ),
    ]
}

/// A packet that asks, and what the policy must say: until when, and whether it goes on.
struct Asked {
    request: Request,
    expire_s: u32,
    forward: bool,
}

/// Sources good and bad, ports and protocols, both families.
fn packets() -> Vec<Asked> {
    let mut all = Vec::new();
    for n in 0..64_u16 {
        let (bad, tcp, web, six) = (n % 4 == 1, n & 8 == 0, n & 16 == 0, n & 32 != 0);
        let (from, to) = (40_000 + n, if web { 80 } else { 443 });
        let frame = if six {
            let third = if bad { 0xbad } else { 0x1 };
            let source = Ipv6Addr::new(0x2001, 0xdb8, third, 0, 0, 0, 0, n);
            let source = SocketAddrV6::new(source, from, 0, 0);
            let target =
                SocketAddrV6::new(Ipv6Addr::new(0x2001, 0xdb8, 5, 0, 0, 0, 0, 5), to, 0, 0);
            if tcp { Frame::tcp6(source, target, SYN) } else { Frame::udp6(source, target) }
        } else {
            let source = Ipv4Addr::new(if bad { 10 } else { 8 }, 8, 8, n as u8);
            let source = SocketAddrV4::new(source, from);
            let target = SocketAddrV4::new(Ipv4Addr::new(203, 0, 113, 5), to);
            if tcp { Frame::tcp4(source, target, SYN) } else { Frame::udp4(source, target) }
        };
        let frame = frame.payload(&[7; 20]).build();
        let request = Request::of(&frame).expect("a packet of IP");
        let expire_s = if bad {
            60
        } else if web {
            600
        } else {
            300
        };
        all.push(Asked { request, expire_s, forward: !bad });
    }
    all
}

impl Asked {
    fn is(&self, answer: &Answer) -> bool {
        let expire_s = answer.decision.map(|decision| decision.expire_s());
        answer.forward == self.forward && expire_s == Some(self.expire_s)
    }
}

/// The policies: a name, and the text.
fn policies() -> [(&'static str, String); 2] {
    [(SINGLE, USUAL.to_owned()), (BATCHED, format!("{USUAL}{BATCH}"))]
}

/// Calls in the policy's process.
fn alone(context: &Context) -> Result<Vec<Row>, Error> {
    clock::cores().last().map(|&core| clock::pin(core)); // the processes, too
    let asked = packets();
    let requests: Vec<_> = asked.iter().map(|asked| asked.request.clone()).collect();
    let mut variants = Vec::new();
    for (name, text) in policies() {
        for at_once in [1, 64] {
            let setup = Setup {
                name,
                text: text.as_bytes(),
                tables: &[],
                captured: 256,
                engines: ["", ""],
            };
            let mut trial = Trial::begin(&setup, &requests).map_err(|error| failed(&error))?;
            check(&mut trial, &asked)?;
            variants.push((name, at_once, trial, Vec::new()));
        }
    }
    for _ in 0..context.pick(21, 3) {
        for (_, at_once, trial, samples) in &mut variants {
            samples.push(1e3 / trial.time(*at_once).map_err(|error| failed(&error))?);
        }
    }
    let row = |(name, at_once, _, samples): (_, usize, _, Vec<f64>)| {
        labels(ALONE, name, at_once).with(RATE, Figure::most_is_best(&samples))
    };
    Ok(variants.into_iter().map(row).collect())
}

/// Each packet once, beside the model.
fn check(trial: &mut Trial, asked: &[Asked]) -> Result<(), Error> {
    for (i, asked) in asked.iter().enumerate() {
        let decided = trial.ask(i).map_err(|error| failed(&error))?;
        let words = decided.decision.unwrap_or_default();
        if decided.forward != asked.forward || !words.contains(&format!("for {} s", asked.expire_s))
        {
            return Err(wrong(format!("packet {i}: {words}")));
        }
    }
    Ok(())
}

/// A Grantor's processes, and a worker's end of the rings to them.
struct Running {
    handle: Handle,
    desk: Desk,
    thread: Option<JoinHandle<()>>,
    asked: Vec<Asked>,
    /// The next question, and how many have no verdict.
    next: u32,
    open: usize,
}

impl Running {
    fn start(processes: usize) -> Result<Running, Error> {
        let worker = *clock::cores().last().unwrap_or(&0);
        clock::leave(worker); // the processes, which are of this thread's kin
        let spare = clock::cores().len() > processes;
        let usual = Settings::default();
        // One that looks all the time keeps the core from the others.
        let spin = if spare { None } else { usual.spin };
        let settings = Settings { processes, depth: DEPTH, spin, limit: PATIENCE / 5, ..usual };
        let (supervisor, handle, mut desks) =
            Supervisor::new(settings).map_err(|error| failed(&error))?;
        let thread = std::thread::spawn(move || supervisor.run(|_| (), || ()));
        let desk = desks.remove(0);
        let (asked, thread) = (packets(), Some(thread));
        let running = Running { handle, desk, thread, asked, next: 0, open: 0 };
        let text = format!("{USUAL}{BATCH}");
        let source = Source::new(BATCHED, &[(BATCHED, text.as_bytes())]);
        let source = source.map_err(|error| failed(&error))?;
        running.handle.load(source).map_err(|error| failed(&error))?;
        clock::pin(worker);
        Ok(running)
    }

    fn ask(&mut self) -> bool {
        let request = &self.asked[self.next as usize % self.asked.len()].request;
        let taken = self.desk.ask(&request.question(self.next)).is_ok();
        self.next = self.next.wrapping_add(u32::from(taken));
        self.open += usize::from(taken);
        taken
    }

    /// A poll: how many verdicts came; an error where one is not the model's.
    fn poll(&mut self) -> Result<usize, Error> {
        let (asked, mut bad) = (&self.asked, None);
        let came = self.desk.verdicts(256, &mut |answer| {
            if !asked[answer.id as usize % asked.len()].is(&answer) {
                bad = Some(answer);
            }
        });
        self.desk.flush();
        self.open -= came;
        bad.map_or(Ok(came), |answer| Err(wrong(format!("{answer:?}"))))
    }

    /// Polls until it is so.
    fn until(&mut self, mut so: impl FnMut(&mut Self) -> Result<bool, Error>) -> Result<(), Error> {
        let begun = Instant::now();
        while !so(self)? {
            if begun.elapsed() > PATIENCE {
                return Err(failed(&"no verdict comes"));
            }
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.stop();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// As many as come back.
fn rings(context: &Context) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    // 1, 2, 4 and so on: as many as there are cores beside the worker's, and two at least.
    let most = (clock::cores().len() - 1).max(2);
    for processes in (0..).map(|doublings| 1 << doublings).take_while(|n| *n <= most) {
        let mut running = Running::start(processes)?;
        let mut samples = Vec::new();
        for _ in 0..context.pick(21, 3) {
            let (begun, mut came) = (Instant::now(), 0);
            while begun.elapsed() < SLICE {
                (0..64).all(|_| running.ask());
                came += running.poll()?;
            }
            samples.push(came as f64 / begun.elapsed().as_secs_f64() / 1e6);
        }
        running.until(|running| running.poll().map(|_| running.open == 0))?;
        let row = labels(RINGS, &format!("{BATCHED}, processes: {processes}"), 64);
        rows.push(row.with(RATE, Figure::most_is_best(&samples)));
    }
    Ok(rows)
}

/// One packet at a time, with processes that look all the time.
fn lone(context: &Context) -> Result<Vec<Row>, Error> {
    let mut running = Running::start(1)?;
    let mut samples = Vec::new();
    for _ in 0..context.pick(4_000, 200) {
        let begun = Instant::now();
        running.until(|running| Ok(running.ask()))?;
        running.until(|running| running.poll().map(|_| running.open == 0))?;
        samples.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    let row = labels(LONE, BATCHED, 1);
    Ok(vec![row.with("µs", Figure::least_is_best(&samples))])
}

fn labels(part: &str, policy: &str, at_once: usize) -> Row {
    let (part, policy) = (part.to_string(), policy.to_string());
    Row::new([("part", part), ("policy", policy), ("at once", at_once.to_string())])
}

fn failed(what: &dyn std::fmt::Display) -> Error {
    Error::Missing { experiment: CARD.name, what: what.to_string() }
}

fn wrong(what: String) -> Error {
    Error::Wrong { experiment: CARD.name, what }
}

const ALONE: &str = "alone";
const RINGS: &str = "through rings";
const LONE: &str = "a lone packet";
const SINGLE: &str = "usual";
const BATCHED: &str = "usual, batched";
const RATE: &str = "decisions";
const SYN: u16 = 2;
/// Questions without a verdict, at most.
const DEPTH: u32 = 1024;
const SLICE: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(5);

//! `rutter grantor policy test`.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use io::pcap::{ETHERNET, Reader};
use policy::ask::Verdict;
use policy::lua::{Options, Policy};
use policy::trial::{Request, Words};
use serde::Serialize;

use super::Test;
use crate::columns::Table;
use crate::context::Context;
use crate::error::Error;
use crate::status::Status;
use crate::warn::warn;

/// What came of it.
#[derive(Serialize)]
struct Outcome {
    flows: Vec<Flow>,
    /// Of the capture.
    frames: u64,
    /// Of those, without an IP packet that a policy could be asked about.
    others: u64,
    /// Records of the capture that could not be read.
    damaged: u64,
    /// Nanoseconds of a decision, in batches of 64; none without a flow, and where it fails.
    batched_ns: Option<f64>,
    /// The same, one by one.
    single_ns: Option<f64>,
}

/// A flow, and what was decided.
#[derive(Serialize)]
struct Flow {
    src: String,
    dst: String,
    packets: u64,
    forward: bool,
    decision: Option<String>,
    error: Option<String>,
}

/// Asks, and prints.
pub fn run(args: Test, cx: &mut Context) -> Result<Status, Error> {
    let requests = read(&args.capture)?;
    let mut policy = load(&args)?;
    let Requests { flows: asked, frames, others, damaged } = requests;
    let flows: Vec<Flow> =
        asked.iter().map(|(request, packets)| ask(&mut policy, request, *packets)).collect();
    let failed = flows.iter().any(|flow| flow.error.is_some());
    let undecided = flows.iter().any(|flow| flow.decision.is_none());
    let [batched_ns, single_ns] =
        [64, 1].map(|len| if failed { None } else { time(&mut policy, &asked, len) });
    let outcome = Outcome { flows, frames, others, damaged, batched_ns, single_ns };
    if cx.json {
        cx.print_json(&outcome)?;
    } else {
        write!(cx.out, "{}", text(&outcome))?;
    }
    if damaged > 0 {
        warn(format_args!("{}: {damaged} records are damaged", args.capture.display()));
        return Ok(Status::Fault);
    }
    Ok(if failed || undecided { Status::No } else { Status::Success })
}

/// The capture's flows in the order of their first packets.
struct Requests {
    /// The first packet, and how many there are.
    flows: Vec<(Request, u64)>,
    frames: u64,
    others: u64,
    damaged: u64,
}

fn read(path: &Path) -> Result<Requests, Error> {
    let file = |error| Error::File { path: path.into(), error };
    let mut reader = Reader::new(BufReader::new(File::open(path).map_err(file)?)).map_err(file)?;
    let mut places = HashMap::new();
    let (mut flows, mut frames, mut others) = (Vec::<(Request, u64)>::new(), 0, 0);
    while let Some(frame) = reader.next_frame().map_err(file)? {
        frames += 1;
        let ethernet = frame.link_type == ETHERNET;
        let Some(request) = ethernet.then(|| Request::of(frame.data)).flatten() else {
            others += 1;
            continue;
        };
        let place = *places.entry(request.flow).or_insert(flows.len());
        match flows.get_mut(place) {
            Some((_, packets)) => *packets += 1,
            None => flows.push((request, 1)),
        }
    }
    Ok(Requests { flows, frames, others, damaged: reader.damaged() })
}

fn load(args: &Test) -> Result<Policy, Error> {
    let mut options = Options { snap: args.snap, ..Options::default() };
    for (choice, engine) in
        [(&args.engine4, &mut options.engine4), (&args.engine6, &mut options.engine6)]
    {
        if let Some(choice) = choice {
            *engine = (choice.name.clone(), choice.options.clone());
        }
    }
    let read =
        |path: &Path| std::fs::read(path).map_err(|error| Error::File { path: path.into(), error });
    for (name, path) in &args.file {
        options.files.insert(name.clone(), read(path)?.into());
    }
    let source = read(&args.policy)?;
    let source = String::from_utf8_lossy(&source);
    let name = args.policy.file_name().unwrap_or(args.policy.as_os_str());
    Ok(Policy::load(&name.to_string_lossy(), &source, &options)?)
}

fn ask(policy: &mut Policy, request: &Request, packets: u64) -> Flow {
    let mut verdicts = Vec::with_capacity(1);
    let error = policy.decide(&[request.question(0)], &mut verdicts).err();
    let verdict = verdicts.first();
    let (src, dst) = request.flow.ends();
    Flow {
        src: src.to_string(),
        dst: dst.to_string(),
        packets,
        forward: verdict.is_some_and(|verdict| verdict.forward),
        decision: verdict.and_then(|v| v.decision).map(|decision| Words(&decision).to_string()),
        error: error.map(|error| error.to_string()),
    }
}

/// Nanoseconds of a decision where `len` flows ask at once: the best of some slices of
/// time, as others' work on this machine only adds to it.
fn time(policy: &mut Policy, flows: &[(Request, u64)], len: usize) -> Option<f64> {
    if flows.is_empty() {
        return None;
    }
    let of = |i: usize| flows[i % flows.len()].0.question(i as u32);
    let questions: Vec<_> = (0..flows.len().max(64)).map(of).collect();
    let mut verdicts: Vec<Verdict> = Vec::with_capacity(len);
    let mut best = None;
    for _ in 0..SLICES {
        let (start, mut decisions) = (Instant::now(), 0);
        while start.elapsed() < SLICE {
            for part in questions.chunks_exact(len) {
                verdicts.clear();
                policy.decide(part, &mut verdicts).ok()?;
                decisions += len;
            }
        }
        let ns = start.elapsed().as_nanos() as f64 / decisions as f64;
        best = Some(best.map_or(ns, |best: f64| best.min(ns)));
    }
    best
}

fn text(outcome: &Outcome) -> String {
    let mut table = Table::new(&["SOURCE", "DESTINATION", ">PACKETS", "PACKET", "DECISION"]);
    for flow in &outcome.flows {
        let decision = match (&flow.error, &flow.decision) {
            (Some(error), _) => error.lines().next().unwrap_or_default().to_owned(),
            (None, Some(decision)) => decision.clone(),
            (None, None) => "none".into(),
        };
        table.row([
            flow.src.clone(),
            flow.dst.clone(),
            flow.packets.to_string(),
            if flow.forward { "forward" } else { "drop" }.into(),
            decision,
        ]);
    }
    let Outcome { flows, frames, others, .. } = outcome;
    let mut text = table.to_string();
    text += &format!("{} flows, {frames} frames, {others} of them not asked about\n", flows.len());
    if let (Some(batched), Some(single)) = (outcome.batched_ns, outcome.single_ns) {
        text +=
            &format!("{batched:.1} ns a decision in batches of 64, {single:.1} ns one by one\n");
    }
    text
}

const SLICES: u32 = 5;
const SLICE: Duration = Duration::from_millis(50);

//! `rutter grantor policy test`.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;

use io::pcap::{ETHERNET, Reader};
use lookup::lpm::Choice;
use policy::cell::file_name;
use policy::cell::trial::{Setup, Trial};
use policy::trial::{Left, Request};
use serde::Serialize;

use super::Test;
use crate::columns::Table;
use crate::context::Context;
use crate::error::Error;
use crate::status::Status;
use crate::warn::warn;

/// The result of a trial.
#[derive(Serialize)]
struct Outcome {
    flows: Vec<Flow>,
    /// Packets in the capture.
    frames: u64,
    /// Of those: packets that no policy is asked about, and why.
    others: u64,
    left_out: BTreeMap<&'static str, u64>,
    /// Records of the capture that could not be read.
    damaged: u64,
    /// Nanoseconds of a decision, in batches of 64; none without a flow, and where it fails.
    batched_ns: Option<f64>,
    /// The same, one by one.
    single_ns: Option<f64>,
}

/// A flow, and its decision.
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
    let Requests { flows: asked, packets, frames, left, damaged } = read(&args.capture)?;
    let mut trial = begin(&args, &asked)?;
    let all = asked.iter().zip(packets).enumerate();
    let flows: Vec<Flow> =
        all.map(|(at, (request, packets))| ask(&mut trial, at, request, packets)).collect();
    let failed = flows.iter().any(|flow| flow.error.is_some());
    let undecided = flows.iter().any(|flow| flow.decision.is_none());
    let measured = !failed && !flows.is_empty();
    let [batched_ns, single_ns] =
        [64, 1].map(|len| if measured { time(&mut trial, len) } else { None });
    let others = left.values().sum();
    let left_out = left.into_iter().map(|(left, n)| (left.name(), n)).collect();
    let outcome = Outcome { flows, frames, others, left_out, damaged, batched_ns, single_ns };
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
    /// The first packet of each, and how many there are.
    flows: Vec<Request>,
    packets: Vec<u64>,
    frames: u64,
    left: BTreeMap<Left, u64>,
    damaged: u64,
}

fn read(path: &Path) -> Result<Requests, Error> {
    let file = |error| Error::File { path: path.into(), error };
    let mut reader = Reader::new(BufReader::new(File::open(path).map_err(file)?)).map_err(file)?;
    let mut places = HashMap::new();
    let (mut flows, mut packets, mut frames) = (Vec::new(), Vec::new(), 0);
    let mut left = BTreeMap::new();
    while let Some(frame) = reader.next_frame().map_err(file)? {
        frames += 1;
        let request = match frame.link_type {
            ETHERNET => Request::of(frame.data),
            _ => Err(Left::NotIp),
        };
        let request = match request {
            Ok(request) => request,
            Err(why) => {
                *left.entry(why).or_insert(0) += 1;
                continue;
            }
        };
        let place = *places.entry(request.flow).or_insert(flows.len());
        match packets.get_mut(place) {
            Some(packets) => *packets += 1,
            None => {
                flows.push(request);
                packets.push(1);
            }
        }
    }
    Ok(Requests { flows, packets, frames, left, damaged: reader.damaged() })
}

fn begin(args: &Test, asked: &[Request]) -> Result<Trial, Error> {
    let read =
        |path: &Path| std::fs::read(path).map_err(|error| Error::File { path: path.into(), error });
    let text = read(&args.policy)?;
    let tables: Result<Vec<_>, Error> =
        args.file.iter().map(|(name, path)| Ok((file_name(name, path), read(path)?))).collect();
    let tables = tables?;
    let tables: Vec<_> = tables.iter().map(|(name, bytes)| (&**name, &bytes[..])).collect();
    let name = args.policy.file_name().unwrap_or(args.policy.as_os_str()).to_string_lossy();
    let [v4, v6] = [&args.engine4, &args.engine6].map(|engine| engine.as_ref().map(words));
    let engines = [v4.as_deref().unwrap_or_default(), v6.as_deref().unwrap_or_default()];
    let setup = Setup { name: &name, text: &text, tables: &tables, captured: args.snap, engines };
    Ok(Trial::begin(&setup, asked)?)
}

/// An engine as it is given.
fn words(choice: &Choice) -> String {
    let options: Vec<_> =
        choice.options.0.iter().map(|(option, value)| format!("{option}={value}")).collect();
    let colon = if options.is_empty() { "" } else { ":" };
    format!("{}{colon}{}", choice.name, options.join(","))
}

fn ask(trial: &mut Trial, at: usize, request: &Request, packets: u64) -> Flow {
    let (src, dst) = request.flow.ends();
    let (src, dst) = (src.to_string(), dst.to_string());
    match trial.ask(at) {
        Ok(decided) => {
            let (forward, decision) = (decided.forward, decided.decision);
            Flow { src, dst, packets, forward, decision, error: None }
        }
        Err(error) => {
            Flow { src, dst, packets, forward: false, decision: None, error: Some(error) }
        }
    }
}

/// Nanoseconds of a decision where `len` flows ask at once: the best of some whiles, as others'
/// work on this machine only adds to it.
fn time(trial: &mut Trial, len: usize) -> Option<f64> {
    let all: Result<Vec<_>, _> = (0..SLICES).map(|_| trial.time(len)).collect();
    all.ok()?.into_iter().reduce(f64::min)
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
    let Outcome { flows, frames, others, left_out, .. } = outcome;
    let mut text = table.to_string();
    text += &format!("{} flows, {frames} frames, {others} of them not asked about", flows.len());
    let names: Vec<_> = left_out.iter().map(|(name, n)| format!("{n} {name}")).collect();
    if !names.is_empty() {
        text += &format!(" ({})", names.join(", "));
    }
    text.push('\n');
    if let (Some(batched), Some(single)) = (outcome.batched_ns, outcome.single_ns) {
        text +=
            &format!("{batched:.1} ns a decision in batches of 64, {single:.1} ns one by one\n");
    }
    text
}

const SLICES: u32 = 5;

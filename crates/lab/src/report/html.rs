//! The page: its head, what leads into it, and the sections one after the other.

use std::fmt::Write;

use super::origin::Origin;
use super::papers;
use super::section;
use super::svg::escape;
use super::verdicts::{self, Counts};
use crate::{Record, experiments};

/// The whole page; `linked`: the records' files are beside it.
pub(super) fn page(records: &[Record], linked: bool) -> String {
    let origin = Origin::new(records);
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
        <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
        <title>Rutter lab</title><style>{}</style></head><body>\n{MARKS}\n<h1>Rutter lab</h1>\n\
        {INTRODUCTION}",
        include_str!("style.css")
    );
    text.push_str(&origin.describe());
    text.push_str(&summary(records));
    text.push_str(READING);
    for group in groups() {
        text.push_str(&part(group, records, &origin, linked));
    }
    let strange = records.iter().filter(|record| !is_known(&record.experiment));
    let strange: Vec<String> = strange.map(|record| escape(&record.experiment)).collect();
    if !strange.is_empty() {
        let _ = writeln!(
            text,
            "<h2>Records of other programs</h2>\n<p>This program has no experiment of these \
            names: {}.</p>",
            strange.join(", ")
        );
    }
    text.push_str("</body></html>\n");
    text
}

/// The folders of experiments, in their order.
fn groups() -> Vec<&'static str> {
    let mut groups = Vec::new();
    for experiment in experiments::all() {
        let group = group(experiment.card().name);
        if groups.last() != Some(&group) {
            groups.push(group);
        }
    }
    groups
}

/// The part of a name before the slash.
fn group(experiment: &str) -> &str {
    experiment.split('/').next().unwrap_or(experiment)
}

fn is_known(name: &str) -> bool {
    experiments::all().iter().any(|experiment| experiment.card().name == name)
}

/// How the papers' claims fared, and our goals, group by group.
fn summary(records: &[Record]) -> String {
    let mut text = String::new();
    for theirs in [true, false] {
        let rulings = verdicts::rulings(theirs);
        let (title, about) = match theirs {
            true => {
                ("The papers' claims", "A paper's own words and bounds, judged on the rows here.")
            }
            false => ("Our own goals", "What the project set itself; no paper claims it."),
        };
        let heads: String =
            rulings.iter().map(|r| format!("<th>{}</th>", r.word().to_lowercase())).collect();
        let _ = write!(
            text,
            "<h2>{title}</h2>\n<p>{about}</p>\n<div class=\"wide\"><table><tr><th></th>{heads}</tr>\n"
        );
        let mut all = Counts::default();
        for group in groups() {
            let of = records.iter().filter(|record| self::group(&record.experiment) == group);
            let counts = Counts::new(of, theirs);
            if counts.is_empty() {
                continue;
            }
            let _ = writeln!(
                text,
                "<tr><td class=\"w\"><a href=\"#{group}\">{}</a></td>{}</tr>",
                escape(experiments::title(group)),
                counts.cells(rulings)
            );
            all.add(&counts);
        }
        let _ = writeln!(text, "<tr><td>all</td>{}</tr>\n</table></div>", all.cells(rulings));
    }
    text
}

/// One paper, or one part of the project.
fn part(group: &str, records: &[Record], origin: &Origin, linked: bool) -> String {
    let of: Vec<&Record> =
        records.iter().filter(|record| self::group(&record.experiment) == group).collect();
    let paper = papers::paper(group);
    if of.is_empty() && paper.is_none() {
        return String::new();
    }
    let mut text = format!(
        "<h2 id=\"{group}\">{}<a class=\"up\" href=\"#\">up</a></h2>\n",
        escape(experiments::title(group))
    );
    if let Some(paper) = paper {
        let _ = writeln!(
            text,
            "<dl><dt>Paper</dt><dd>{}</dd><dt>Its machine</dt><dd>{}</dd></dl>",
            escape(paper.cite),
            escape(paper.machine)
        );
        let counts = Counts::new(of.iter().copied(), true);
        let _ = writeln!(text, "<p><b>{}</b></p>", counts.sentence());
    }
    let cards = || experiments::all().iter().map(|experiment| experiment.card());
    let mut missing: Vec<String> = paper
        .iter()
        .flat_map(|paper| paper.left_out)
        .map(|(figure, why)| format!("{figure}: {why}"))
        .collect();
    let unmeasured = cards()
        .filter(|card| self::group(card.name) == group)
        .filter(|card| !of.iter().any(|record| record.experiment == card.name));
    missing.extend(unmeasured.map(|card| format!("{}: open: no record of it here", card.name)));
    if !missing.is_empty() {
        let lines: String =
            missing.iter().map(|line| format!("<li>{}</li>", escape(line))).collect();
        let _ = writeln!(text, "<p>Not on this page:</p><ul>{lines}</ul>");
    }
    let links: Vec<String> = cards()
        .filter(|card| of.iter().any(|record| record.experiment == card.name))
        .map(|card| {
            let name = escape(card.name);
            format!("<a href=\"#{name}\">{}</a>", name.rsplit('/').next().unwrap_or_default())
        })
        .collect();
    let _ = writeln!(text, "<p>{}</p>", links.join(" · "));
    for card in cards() {
        for record in of.iter().filter(|record| record.experiment == card.name) {
            text.push_str(&section::section(card, record, origin, linked));
        }
    }
    text
}

const INTRODUCTION: &str = "<p>Every experiment redoes one figure or table of a paper, or measures \
a goal of the project. What is compared takes turns in slices of a few milliseconds; answers are \
checked against a flattened table before anything is timed: a wrong engine has no figure.</p>\n";

const READING: &str = "<h2>How to read it</h2>\n<ul>\
<li>A figure is the <b>median</b> of its slices. The thin bar across it is as long as the distance \
between the <b>quartiles</b>.</li>\
<li>A hollow diamond is <b>the paper's own figure</b>, from its text or a table of it, on its own \
machine. Absolute figures of a paper belong to that machine: verdicts compare ratios.</li>\
<li>Bars begin at zero. Where one engine would hide another, the axis is logarithmic and has marks \
instead of bars.</li>\
<li>A claim is judged by the middle one of all comparable pairs, or by each of them where the paper \
says so of all; families, kinds of traffic, instruction sets, generated and real tables apart. \
Within its bounds it is <b>as stated</b>; beyond, the way that the claim goes, <b>stronger</b>; past \
them by less than a tenth, <b>within noise</b>; where one side did not take part, or was not measured \
here, <b>open</b>. Anything else is a <b>contradiction</b>.</li>\
<li>A goal of ours is <b>reached</b> or <b>missed</b>; it has no noise. What was \
measured <b>beside</b> the goals is counted nowhere.</li></ul>\n";

/// The marks of series, and the paper's.
const MARKS: &str = "<svg class=\"marks\" aria-hidden=\"true\"><defs>\
<circle id=\"m0\" r=\"4.5\"/><path id=\"m1\" d=\"M-4-4H4V4H-4z\"/><path id=\"m2\" d=\"M0-5.5L5 4H-5z\"/>\
<path id=\"m3\" d=\"M0 5.5L5-4H-5z\"/><path id=\"m4\" d=\"M-1.7-5H1.7V-1.7H5V1.7H1.7V5H-1.7V1.7H-5V-1.7H-1.7z\"/>\
<path id=\"m5\" d=\"M-4.8-2.4L-2.4-4.8 0-2.4 2.4-4.8 4.8-2.4 2.4 0 4.8 2.4 2.4 4.8 0 2.4-2.4 4.8-4.8 2.4-2.4 0z\"/>\
<path id=\"m6\" d=\"M-5.5-2.2H5.5V2.2H-5.5z\"/><path id=\"m7\" d=\"M-2.2-5.5H2.2V5.5H-2.2z\"/>\
<path id=\"mp\" d=\"M0-5.5L5.5 0 0 5.5-5.5 0z\"/></defs></svg>";

//! The page around the plots.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::marks::escape;
use super::plot;
use crate::record::short;
use crate::{Card, Error, Record, Row, Ruling, Verdict, experiments};

/// The whole page.
pub(super) fn page(records: &[Record], sections: &[String]) -> String {
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
        <meta name=\"viewport\" content=\"width=device-width\"><title>Rutter lab</title>\
        <style>{STYLE}</style></head><body>\n<h1>Rutter lab</h1>\n{INTRODUCTION}"
    );
    text.push_str(&machines(records));
    text.push_str(&summary(records));
    sections.iter().for_each(|section| text.push_str(section));
    text.push_str("</body></html>\n");
    text
}

/// One experiment: claim, verdicts, plots, figures.
pub(super) fn section(card: &Card, record: &Record) -> Result<String, Error> {
    let name = escape(card.name);
    let mut text = format!(
        "<h2 id=\"{name}\">{name}<a class=\"up\" href=\"#\">up</a></h2>\n<p>{}</p>\n",
        escape(card.help)
    );
    let _ = writeln!(
        text,
        "<p class=\"claim\"><b>Claim ({}):</b> {}</p>",
        escape(card.source),
        escape(card.claim)
    );
    text.push_str(&verdicts(&record.verdicts));
    for svg in card.plots.iter().map(|plot| plot::draw(plot, &record.rows)) {
        svg?.iter().for_each(|svg| text.push_str(svg));
    }
    for note in &record.notes {
        let _ = writeln!(text, "<p class=\"note\">{}</p>", escape(note));
    }
    text.push_str(&absent(record));
    text.push_str(&data(record));
    text.push_str(&figures(record));
    Ok(text)
}

fn machines(records: &[Record]) -> String {
    let mut text = String::new();
    let mut seen: Vec<&Record> = Vec::new();
    for record in records {
        if seen.iter().any(|other| other.machine.is_same(&record.machine)) {
            continue;
        }
        seen.push(record);
        let m = &record.machine;
        let _ = writeln!(
            text,
            "<p class=\"machine\">{} ({}), {} cores{}, {:.2} GHz; caches {}; {:.0} GiB; \
             hugepages: {}; Linux {}; {}; commit {}{}; {}</p>",
            escape(&m.cpu),
            escape(&m.model),
            m.cores,
            if m.virtual_machine { " of a virtual machine" } else { "" },
            m.core_ghz,
            escape(&m.caches.join(", ")),
            m.memory_bytes as f64 / f64::from(1 << 30),
            escape(&m.hugepages),
            escape(&m.kernel),
            escape(&m.flags.join(" ")),
            escape(&m.commit),
            if m.release { "" } else { ", debug build" },
            date(record.time_s)
        );
    }
    text
}

/// What was measured, group by group, and how its claims fared.
fn summary(records: &[Record]) -> String {
    let all = |ruling: Ruling| {
        let verdicts = records.iter().flat_map(|record| &record.verdicts);
        verdicts.filter(|verdict| verdict.ruling == ruling).count()
    };
    let counts = |rulings: &[Ruling]| {
        let count = |ruling: &Ruling| {
            format!("<b class=\"{}\">{} {}</b>", class(*ruling), all(*ruling), ruling.word())
        };
        rulings.iter().map(count).collect::<Vec<_>>().join(", ")
    };
    let [papers @ .., _, _, _] = Ruling::ALL;
    let mut text = format!(
        "<h2>Experiments</h2>\n<p>{} experiments, {:.0} minutes. Claims of papers: {}. Goals of \
        ours: {}. {} are open: one side did not take part or was not measured here.</p>\n\
        <table class=\"summary\">\n",
        records.len(),
        records.iter().map(|record| record.took_s).sum::<f64>() / 60.0,
        counts(&papers),
        counts(&[Ruling::Reached, Ruling::Missed]),
        all(Ruling::Open)
    );
    let mut group = "";
    for card in experiments::all().iter().map(|experiment| experiment.card()) {
        let Some(record) = records.iter().find(|record| record.experiment == card.name) else {
            continue;
        };
        let first = card.name.split('/').next().unwrap_or_default();
        if first != group {
            group = first;
            let title = experiments::title(group);
            let _ = writeln!(
                text,
                "<tr class=\"group\"><th colspan=\"2\">{}</th>{}</tr>",
                escape(title),
                Ruling::ALL.map(|ruling| format!("<th>{}</th>", ruling.word())).concat()
            );
        }
        let count = |ruling: Ruling| match record
            .verdicts
            .iter()
            .filter(|verdict| verdict.ruling == ruling)
            .count()
        {
            0 => "<td></td>".to_string(),
            n => format!("<td class=\"{}\">{n}</td>", class(ruling)),
        };
        let name = escape(card.name);
        let _ = writeln!(
            text,
            "<tr><td><a href=\"#{name}\">{name}</a>{}</td><td>{}</td>{}</tr>",
            if record.quick { " <small>quick</small>" } else { "" },
            escape(card.help),
            Ruling::ALL.map(count).concat()
        );
    }
    text.push_str("</table>\n");
    text
}

fn verdicts(verdicts: &[Verdict]) -> String {
    if verdicts.is_empty() {
        return String::new();
    }
    let mut text = String::from("<table><tr><th>claim</th><th>measured here</th><th></th></tr>\n");
    for verdict in verdicts {
        let _ = writeln!(
            text,
            "<tr><td>{}</td><td>{}</td><td class=\"{}\">{}</td></tr>",
            escape(&verdict.claim),
            escape(&verdict.measured),
            class(verdict.ruling),
            verdict.ruling.word()
        );
    }
    text.push_str("</table>\n");
    text
}

/// How a ruling is coloured.
fn class(ruling: Ruling) -> &'static str {
    match ruling {
        Ruling::AsStated | Ruling::Stronger | Ruling::Reached => "yes",
        Ruling::Contradicted | Ruling::Missed => "no",
        Ruling::WithinNoise | Ruling::Open => "open",
    }
}

/// What did not take part, and why: each reason once.
fn absent(record: &Record) -> String {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in record.rows.iter().filter(|row| row.note.is_some()) {
        let (note, who) = (row.note.as_deref().unwrap_or_default(), row.label("engine"));
        match reasons.iter_mut().find(|(known, _)| *known == note) {
            Some((_, names)) if names.contains(&who) => {}
            Some((_, names)) => names.push(who),
            None => reasons.push((note, vec![who])),
        }
    }
    let line = |(note, names): &(&str, Vec<&str>)| {
        format!("<li>{}: {}</li>", escape(&names.join(", ")), escape(note))
    };
    match reasons.len() {
        0 => String::new(),
        n => {
            let lines: String = reasons.iter().map(line).collect();
            format!(
                "<details class=\"note\"><summary>remarks on rows: {n}</summary><ul>{lines}</ul></details>\n"
            )
        }
    }
}

fn data(record: &Record) -> String {
    if record.data.is_empty() {
        return String::new();
    }
    let set = |(name, sum): (&String, &String)| format!("{} ({})", escape(name), escape(sum));
    let sets: Vec<String> = record.data.iter().map(set).collect();
    format!("<p class=\"note\">Tables (checksums): {}</p>\n", sets.join(", "))
}

/// All rows, folded away: median (best, spread in percent).
fn figures(record: &Record) -> String {
    let names = |of: fn(&Row) -> Vec<&String>| -> BTreeSet<&String> {
        record.rows.iter().flat_map(of).collect()
    };
    let labels = names(|row| row.labels.keys().collect());
    let figures = names(|row| row.figures.keys().collect());
    let mut text = String::from(
        "<details><summary>figures: median (best, spread)</summary><table class=\"figures\"><tr>",
    );
    for name in labels.iter().chain(&figures) {
        let _ = write!(text, "<th>{}</th>", escape(name));
    }
    text.push_str("<th></th></tr>\n");
    for row in &record.rows {
        text.push_str("<tr>");
        for name in &labels {
            let _ = write!(text, "<td>{}</td>", escape(row.label(name)));
        }
        for figure in figures.iter().map(|name| row.figures.get(*name)) {
            let cell = match figure {
                None => String::new(),
                Some(f) if f.samples < 2 => short(f.median),
                Some(f) => {
                    format!("{} ({}, {:.0} %)", short(f.median), short(f.best), f.spread * 100.0)
                }
            };
            let _ = write!(text, "<td class=\"figure\">{cell}</td>");
        }
        let _ = writeln!(text, "<td>{}</td></tr>", escape(row.note.as_deref().unwrap_or("")));
    }
    text.push_str("</table></details>\n");
    text
}

/// `2026-11-21`, by the civil calendar (Hinnant, *chrono-compatible low-level
/// date algorithms*).
fn date(time_s: u64) -> String {
    let days = (time_s / 86_400) as i64 + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

const INTRODUCTION: &str = "<p>Every experiment redoes one figure or table of a paper, or measures \
a goal of the project, on the machine below. Things compared take turns in slices of a few \
milliseconds; a figure is the median of its slices, the best and the spread (difference of the \
quartiles) stand in the tables. Answers are checked against a flattened table before anything is \
timed: a wrong engine gets no figure. A paper's claim is judged by the middle one of all comparable \
pairs, or by each of them where the paper says so of all; families, kinds of traffic, instruction \
sets, generated and real tables apart. Its text is the paper's, its bounds are the text's: within \
them it is as stated; beyond, the way that the claim goes, stronger; past them by less than a tenth, \
within noise. The papers' absolute figures belong to their machines.</p>\n";

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;\
padding:0 1rem;color:#222}h1,h2{font-weight:600}h2{margin-top:3rem;border-top:1px solid #ddd;\
padding-top:1rem}table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .7rem;\
border-bottom:1px solid #e5e5e5;text-align:left;vertical-align:top}.figures{font-size:12px}\
.figure{text-align:right;white-space:nowrap}.machine,.note{color:#555;font-size:13px}\
.claim{background:#f5f7fa;padding:.6rem 1rem;border-left:3px solid #89a}.yes{color:#17722c}\
.no{color:#b3261e}.open{color:#8a6d00}td.yes,td.no,td.open{white-space:nowrap}svg{max-width:100%;height:auto;display:block;margin:1rem 0}\
details{overflow-x:auto}.group th{padding-top:1.2rem;border-bottom:2px solid #bbb}\
.summary{width:100%;font-size:14px}.summary td:nth-child(n+3),.summary .group th:nth-child(n+2)\
{text-align:right;width:3rem;font-size:11px;font-weight:400}.summary td:first-child{white-space:nowrap}small{color:#777}\
.up{float:right;font-size:13px;font-weight:400}a{color:#1a5a96;text-decoration:none}";

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates_of_the_calendar() {
        let cases = [(0, "1970-01-01"), (951_782_400, "2000-02-29"), (1_800_000_000, "2027-01-15")];
        for (time_s, text) in cases {
            assert_eq!(date(time_s), text);
        }
    }
}

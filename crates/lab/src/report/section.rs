//! One experiment: its claim, the verdicts, the workload, the pictures, the rest.

use std::fmt::Write;

use super::origin::Origin;
use super::papers;
use super::picture;
use super::svg::escape;
use super::verdicts;
use crate::record::file_stem;
use crate::{Card, Options, Record, contestants};

/// The section of `record`; `linked`: its files are beside the page.
pub(super) fn section(card: &Card, record: &Record, origin: &Origin<'_>, linked: bool) -> String {
    let name = escape(card.name);
    let measured = papers::measured(card.name);
    let mut text = format!(
        "<h3 id=\"{name}\">{name}<a class=\"up\" href=\"#\">up</a></h3>\n<p>{}</p>\n\
        <p class=\"claim\"><b>{} ({}):</b> {}</p>\n",
        escape(card.help),
        if measured.is_some() { "The paper" } else { "Our goal" },
        escape(card.source),
        escape(card.claim)
    );
    text.push_str(&verdicts::table("The paper's claims", &verdicts::apart(record, true)));
    text.push_str(&verdicts::table("Our own goals", &verdicts::apart(record, false)));
    text.push_str(&workload(measured.map(|measured| measured.workload), record));
    let command = command(record);
    for plot in card.plots {
        text.push_str(&picture::draw(plot, card.name, &command, &record.rows));
    }
    if let Some(measured) = measured {
        text.push_str(&picture::beside(measured, card.plots, &record.rows));
    }
    text.push_str(&absent(record));
    let stem = escape(&file_stem(card.name));
    let files = ["csv", "json"].map(|kind| match linked {
        true => format!("<a href=\"{stem}.{kind}\">{stem}.{kind}</a>"),
        false => format!("{stem}.{kind}"),
    });
    let _ = writeln!(
        text,
        "<p class=\"dim\">{} rows: {}; {}.</p>",
        record.rows.len(),
        files.join(", "),
        escape(&origin.particular(record))
    );
    text
}

/// The command that makes the record again.
fn command(record: &Record) -> String {
    let mut text = format!("rutter lab run {}", record.experiment);
    if record.quick {
        text.push_str(" --quick");
    }
    // Older records have one list of all that was named.
    let of_old = |named: &str| match named {
        _ if record.engines.is_some() => "table",
        engine if contestants::known(&[engine.to_string()]).is_ok() => "engine",
        file if file.starts_with("updates") => "updates",
        _ => "table",
    };
    let tables = record.tables.iter().map(|named| (of_old(named), named));
    let engines = record.engines.iter().flatten().map(|named| ("engine", named));
    let updates = record.updates.iter().map(|named| ("updates", named));
    for (option, named) in tables.chain(engines).chain(updates) {
        let plain = |c: char| c.is_ascii_alphanumeric() || ",.:=-_/".contains(c);
        let _ = match named.chars().all(plain) {
            true => write!(text, " --{option} {named}"),
            false => write!(text, " --{option} '{}'", named.replace('\'', "'\\''")),
        };
    }
    if ![0, Options::HOPS].contains(&record.hops) {
        let _ = write!(text, " --hops {}", record.hops);
    }
    text
}

/// What was measured there and here.
fn workload(paper: Option<&str>, record: &Record) -> String {
    let mut text = String::from("<dl>");
    if let Some(paper) = paper {
        let _ = write!(text, "<dt>The paper's workload</dt><dd>{}</dd>", escape(paper));
    }
    let tables: Vec<String> =
        record.data.iter().map(|(name, sum)| format!("{name} ({sum})")).collect();
    if !tables.is_empty() {
        let _ = write!(
            text,
            "<dt>Tables here</dt><dd>{} <small>(checksums)</small></dd>",
            escape(&tables.join(", "))
        );
    }
    let notes: Vec<String> = record.notes.iter().map(|note| escape(note)).collect();
    if !notes.is_empty() {
        let name = if paper.is_some() { "The difference" } else { "Notes" };
        let _ = write!(text, "<dt>{name}</dt><dd>{}</dd>", notes.join(".<br>"));
    }
    text.push_str("</dl>\n");
    if text.len() < 12 { String::new() } else { text }
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
    if reasons.is_empty() {
        return String::new();
    }
    let line = |(note, names): &(&str, Vec<&str>)| {
        let names: Vec<&str> = names.iter().copied().filter(|name| !name.is_empty()).collect();
        let colon = if names.is_empty() { "" } else { ": " };
        format!("<li>{}{colon}{}</li>", escape(&names.join(", ")), escape(note))
    };
    let lines: String = reasons.iter().map(line).collect();
    format!(
        "<details><summary>Remarks on rows: {}</summary><ul>{lines}</ul></details>\n",
        reasons.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_the_options_of_its_record() {
        let of = |tables: &[&str], hops, quick| {
            let tables = tables.iter().map(|table| table.to_string()).collect();
            let experiment = "dxr/fig3".to_string();
            command(&Record { experiment, tables, hops, quick, ..Record::default() })
        };
        assert_eq!(of(&[], Options::HOPS, false), "rutter lab run dxr/fig3");
        assert_eq!(
            of(&["v4.txt.xz", "it's|long=3"], 200, true),
            "rutter lab run dxr/fig3 --quick --table v4.txt.xz --table 'it'\\''s|long=3' --hops 200"
        );
        // As older records have it.
        assert_eq!(
            of(&["dxr:k=16", "updates.20221029.gz"], Options::HOPS, false),
            "rutter lab run dxr/fig3 --engine dxr:k=16 --updates updates.20221029.gz"
        );
        let now = Record {
            experiment: "science/tails".into(),
            tables: vec!["dxr".into()],
            engines: Some(vec!["rutter4".into()]),
            updates: Some("bgp.mrt.gz".into()),
            ..Record::default()
        };
        assert_eq!(
            command(&now),
            "rutter lab run science/tails --table dxr --engine rutter4 --updates bgp.mrt.gz"
        );
    }
}

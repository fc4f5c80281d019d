//! Verdicts on a page: a paper's claims, and apart from them our own goals.

use std::fmt::Write;

use super::papers;
use super::svg::escape;
use crate::{Record, Ruling, Verdict};

/// The rulings on claims of papers, or on goals of ours.
pub(super) fn rulings(theirs: bool) -> &'static [Ruling] {
    match theirs {
        true => &[
            Ruling::AsStated,
            Ruling::Stronger,
            Ruling::WithinNoise,
            Ruling::Contradicted,
            Ruling::Open,
        ],
        false => &[Ruling::Reached, Ruling::Missed, Ruling::Open],
    }
}

/// How many verdicts of each ruling.
#[derive(Default)]
pub(super) struct Counts(Vec<Ruling>);

impl Counts {
    /// Of the papers' claims in `records`, or of our goals.
    pub fn new<'r>(records: impl IntoIterator<Item = &'r Record>, theirs: bool) -> Counts {
        let of = |record: &'r Record| apart(record, theirs);
        let all = records.into_iter().flat_map(of);
        Counts(all.map(|verdict| verdict.ruling).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn add(&mut self, other: &Counts) {
        self.0.extend(&other.0);
    }

    fn of(&self, ruling: Ruling) -> usize {
        self.0.iter().filter(|one| **one == ruling).count()
    }

    /// A cell of a table for each ruling.
    pub fn cells(&self, rulings: &[Ruling]) -> String {
        let cell = |ruling: &Ruling| match self.of(*ruling) {
            0 => "<td class=\"r\">–</td>".to_string(),
            n => format!("<td class=\"r {}\">{n}</td>", class(*ruling)),
        };
        rulings.iter().map(cell).collect()
    }

    /// `Of 9 claims: 2 as stated, 7 open.`
    pub fn sentence(&self) -> String {
        let some = rulings(true).iter().filter(|ruling| self.of(**ruling) > 0);
        let some: Vec<String> = some
            .map(|ruling| {
                let word = ruling.word().to_lowercase();
                format!("<span class=\"{}\">{} {word}</span>", class(*ruling), self.of(*ruling))
            })
            .collect();
        match self.0.len() {
            0 => "No claim of it was judged here.".into(),
            1 => format!("Of 1 claim: {}.", some.join(", ")),
            n => format!("Of {n} claims: {}.", some.join(", ")),
        }
    }
}

/// The verdicts of a record on its paper, or those on our goals.
pub(super) fn apart(record: &Record, theirs: bool) -> Vec<Verdict> {
    let redone = papers::measured(&record.experiment).is_some();
    let ruled = |verdict: Verdict| {
        // Before there were bounds, records had one word for claims and for goals.
        let of_old = !redone && verdict.bounds.is_empty();
        let ruling = match verdict.ruling {
            Ruling::AsStated if of_old => Ruling::Reached,
            Ruling::Contradicted if of_old => Ruling::Missed,
            ruling => ruling,
        };
        Verdict { ruling, ..verdict }
    };
    let is_theirs = |verdict: &Verdict| match verdict.ruling {
        Ruling::Reached | Ruling::Missed | Ruling::Beside => false,
        Ruling::Open => redone,
        _ => true,
    };
    let all = record.verdicts.iter().cloned();
    all.map(ruled).filter(|verdict| is_theirs(verdict) == theirs).collect()
}

/// The verdicts as a table.
pub(super) fn table(title: &str, verdicts: &[Verdict]) -> String {
    if verdicts.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "<h5>{}</h5><div class=\"wide\"><table><tr><th>verdict</th><th>claim</th><th>bounds</th>\
        <th>measured here</th></tr>\n",
        escape(title)
    );
    for verdict in verdicts {
        let bounds = match verdict.bounds.as_str() {
            "" => "–".into(),
            bounds => escape(bounds),
        };
        let _ = writeln!(
            text,
            "<tr><td class=\"{}\">{}</td><td class=\"w\">{}</td><td class=\"m\">{bounds}</td>\
            <td class=\"m\">{}</td></tr>",
            class(verdict.ruling),
            verdict.ruling.word().to_lowercase(),
            escape(&verdict.claim),
            escape(&verdict.measured)
        );
    }
    text.push_str("</table></div>\n");
    text
}

/// How a ruling is coloured.
fn class(ruling: Ruling) -> &'static str {
    match ruling {
        Ruling::AsStated | Ruling::Stronger | Ruling::Reached => "yes",
        Ruling::Contradicted | Ruling::Missed => "no",
        Ruling::WithinNoise | Ruling::Open | Ruling::Beside => "open",
    }
}

//! What an experiment is.

use crate::{Context, Error, Record, Row, Verdict};

/// One figure or table of a paper, or one measurement of ours.
pub trait Experiment: Sync {
    /// What it is, as data.
    fn card(&self) -> &'static Card;

    /// The families, `ipv4` and `ipv6`, whose routes it measures in tables that are given to it
    /// ([`Context::tables`], [`Context::beside`]); none where it takes no table.
    fn families(&self, context: &Context) -> &'static [&'static str] {
        let _ = context;
        &[]
    }

    /// Whether it measures `engine` instead of its own where that is asked for
    /// ([`Context::engines`]); the name may have options.
    fn takes_engine(&self, context: &Context, engine: &str) -> bool {
        let _ = (context, engine);
        false
    }

    /// Whether it replays updates that are given to it ([`Context::updates`]).
    fn takes_updates(&self) -> bool {
        false
    }

    /// What the claims of its paper and our goals come to on these rows, whichever machine they
    /// are of.
    fn judge(&self, rows: &[Row]) -> Vec<Verdict>;

    /// Gives `record` the verdicts of this program without measuring anew: records outlive the
    /// bounds that they were judged by.
    fn judge_anew(&self, record: &mut Record) {
        record.verdicts = self.judge(&record.rows);
    }

    /// Measures.
    ///
    /// # Errors
    /// When the machine or the build lacks something, or a result is wrong.
    fn run(&self, context: &mut Context) -> Result<Record, Error>;
}

/// What `rutter lab list` and the report say about an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Card {
    /// Its name: the paper or part, a slash, the figure (`dxr/fig3`).
    pub name: &'static str,
    /// How long it usually takes: what the time left is reckoned from.
    pub takes: Takes,
    /// One line.
    pub help: &'static str,
    /// Where the claim comes from: paper and figure, or the goal's place.
    pub source: &'static str,
    /// What the paper says, or what is to be reached.
    pub claim: &'static str,
    /// What the report draws.
    pub plots: &'static [Plot],
}

/// Seconds on a quiet machine of 2026.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Takes {
    /// Of a full run.
    pub full_s: f64,
    /// Of a quick one.
    pub quick_s: f64,
}

impl Takes {
    /// Of a quick run, or a full one.
    pub fn seconds(self, quick: bool) -> f64 {
        if quick { self.quick_s } else { self.full_s }
    }
}

/// How rows become a picture.
#[derive(Clone, Copy, Debug)]
pub struct Plot {
    /// Above the picture.
    pub title: &'static str,
    /// The figure on the vertical axis (`rate_mlps`).
    pub figure: &'static str,
    /// The title of that axis.
    pub unit: &'static str,
    /// The label on the horizontal axis (`traffic`, `prefixes`).
    pub x: &'static str,
    /// The label that distinguishes lines or bars (`engine`), or several: `engine+traffic`.
    pub series: &'static str,
    /// One picture for each combination of these labels (`family`, `table`).
    pub panels: &'static [&'static str],
    /// Bars or lines.
    pub style: Style,
}

/// Bars or lines.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Style {
    /// Groups of bars, one group for each value of `x`.
    Bars,
    /// A line of bars for each value of `x`, the one with the most on top.
    Ranked,
    /// The same on a logarithmic scale, the one with the least on top.
    RankedLog,
    /// Lines; `x` holds numbers.
    Lines,
    /// Lines over a logarithmic horizontal axis.
    LogLines,
    /// Lines on a logarithmic vertical axis.
    LogY,
    /// Lines, both axes logarithmic.
    LogLog,
}

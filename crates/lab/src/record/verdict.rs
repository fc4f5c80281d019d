//! Verdicts: what came of a claim of a paper, or of a goal of ours.
//!
//! ```text
//!   below         noise │ least ───────── most │ noise          above
//!   contradicted    ±   │       as stated      │   ±     stronger, or contradicted
//! ```
//!
//! A paper's figures are those of another machine: what misses a bound by less than a tenth
//! neither holds nor fails. A goal is a bound that is reached or missed.

use serde::{Deserialize, Serialize};

use super::short;

/// A claim and what came of it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Verdict {
    /// What the paper says, or the goal.
    pub claim: String,
    /// From where to where it holds; empty where no two figures bound it, and in records of
    /// before there were bounds in them.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub bounds: String,
    /// What was measured here.
    pub measured: String,
    /// What came of it.
    #[serde(alias = "confirmed", deserialize_with = "stored")]
    pub ruling: Ruling,
}

/// What came of a claim or a goal.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ruling {
    /// A paper's claim: within its bounds.
    AsStated,
    /// A paper's claim: beyond the bound, the way that the claim goes.
    Stronger,
    /// A paper's claim: beyond a bound by less than a tenth.
    WithinNoise,
    /// A paper's claim: it does not hold here.
    Contradicted,
    /// A goal of ours that is reached.
    Reached,
    /// A goal of ours that is missed.
    Missed,
    /// This run cannot decide.
    Open,
    /// Measured beside them, and neither a claim nor a goal.
    Beside,
}

impl Ruling {
    /// All of them, in the order of reports.
    pub const ALL: [Ruling; 8] = [
        Ruling::AsStated,
        Ruling::Stronger,
        Ruling::WithinNoise,
        Ruling::Contradicted,
        Ruling::Reached,
        Ruling::Missed,
        Ruling::Open,
        Ruling::Beside,
    ];

    /// For readers.
    pub fn word(self) -> &'static str {
        match self {
            Ruling::AsStated => "as stated",
            Ruling::Stronger => "stronger",
            Ruling::WithinNoise => "within noise",
            Ruling::Contradicted => "CONTRADICTED",
            Ruling::Reached => "reached",
            Ruling::Missed => "MISSED",
            Ruling::Open => "open",
            Ruling::Beside => "beside",
        }
    }
}

impl Verdict {
    /// A goal: `measured` is at most `bound`.
    pub fn at_most(claim: impl Into<String>, measured: f64, bound: f64, unit: &str) -> Verdict {
        Verdict::between(claim, measured, (f64::NEG_INFINITY, bound), unit)
    }

    /// A goal: `measured` is at least `bound`.
    pub fn at_least(claim: impl Into<String>, measured: f64, bound: f64, unit: &str) -> Verdict {
        Verdict::between(claim, measured, (bound, f64::INFINITY), unit)
    }

    /// A goal with two bounds: beyond the one that nobody reaches, nothing was measured.
    pub fn between(
        claim: impl Into<String>,
        measured: f64,
        (least, most): (f64, f64),
        unit: &str,
    ) -> Verdict {
        let text = format!("{} {unit}", short(measured));
        let bounds = Bound::within(least, most).text(unit);
        Verdict { bounds, ..Verdict::goal(claim, text, (least..=most).contains(&measured)) }
    }

    /// A goal, reached or missed.
    pub fn goal(claim: impl Into<String>, measured: impl Into<String>, reached: bool) -> Verdict {
        let ruling = if reached { Ruling::Reached } else { Ruling::Missed };
        let (claim, measured, bounds) = (claim.into(), measured.into(), String::new());
        Verdict { claim, bounds, measured, ruling }
    }

    /// A claim that this run cannot decide, and why.
    pub fn open(claim: impl Into<String>, why: impl Into<String>) -> Verdict {
        let (claim, measured, bounds) = (claim.into(), why.into(), String::new());
        Verdict { claim, bounds, measured, ruling: Ruling::Open }
    }

    /// What was measured beside the goals, which sets none.
    pub fn beside(what: impl Into<String>, measured: impl Into<String>) -> Verdict {
        Verdict { ruling: Ruling::Beside, ..Verdict::open(what, measured) }
    }

    /// Whether it holds; `None` where this run cannot decide.
    pub fn holds(&self) -> Option<bool> {
        match self.ruling {
            Ruling::AsStated | Ruling::Stronger | Ruling::Reached => Some(true),
            Ruling::Contradicted | Ruling::Missed => Some(false),
            Ruling::WithinNoise | Ruling::Open | Ruling::Beside => None,
        }
    }
}

/// What a text says about a figure, as bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    least: f64,
    most: f64,
    /// Beyond `most` is stronger, not another result.
    upwards: bool,
    /// The same below `least`.
    downwards: bool,
    /// A single figure: its tenth is in the bounds already.
    exact: bool,
    every: bool,
    ours: bool,
    /// Counted, not measured: it has no noise.
    counted: bool,
}

impl Bound {
    /// From the one to the other; beyond either the text is wrong.
    pub const fn within(least: f64, most: f64) -> Bound {
        let (upwards, downwards, exact, every, ours, counted) =
            (false, false, false, false, false, false);
        Bound { least, most, upwards, downwards, exact, every, ours, counted }
    }

    /// A gain from the one to the other: more of it is stronger.
    pub const fn gain(least: f64, most: f64) -> Bound {
        Bound { upwards: true, ..Bound::within(least, most) }
    }

    /// One figure that is said to be so much: within a tenth.
    pub const fn about(figure: f64) -> Bound {
        Bound { exact: true, ..Bound::within(figure / NOISE, figure * NOISE) }
    }

    /// A gain of one figure: within a tenth, and more is stronger.
    pub const fn gain_of(figure: f64) -> Bound {
        Bound { upwards: true, ..Bound::about(figure) }
    }

    /// A cost of one figure: within a tenth, and less is stronger.
    pub const fn cost_of(figure: f64) -> Bound {
        Bound { downwards: true, ..Bound::about(figure) }
    }

    /// No less than this.
    pub const fn least(least: f64) -> Bound {
        Bound::within(least, f64::INFINITY)
    }

    /// No more than this.
    pub const fn most(most: f64) -> Bound {
        Bound::within(f64::NEG_INFINITY, most)
    }

    /// The one has more than the other, by whatever factor: by a tenth at least, or it is
    /// noise.
    pub const fn more() -> Bound {
        Bound { exact: true, ..Bound::least(NOISE) }
    }

    /// The one has less than the other.
    pub const fn less() -> Bound {
        Bound { exact: true, ..Bound::most(1.0 / NOISE) }
    }

    /// "Slightly" more: by a fifth at most.
    pub const fn slightly() -> Bound {
        Bound::within(1.0, SLIGHT)
    }

    /// "Significantly", "substantially" or "greatly" more: by more than slightly.
    pub const fn much() -> Bound {
        Bound::least(SLIGHT)
    }

    /// It is said of every case, not of the middle one.
    pub const fn every(self) -> Bound {
        Bound { every: true, ..self }
    }

    /// Of what is counted: a bound is a bound.
    pub const fn counted(self) -> Bound {
        Bound { counted: true, ..self }
    }

    /// A goal of ours, not a claim of a paper's: reached or missed.
    pub const fn ours(self) -> Bound {
        Bound { ours: true, ..self }
    }

    /// What `found` says of `claim`: the middle one of all cases, or the worst where it is
    /// said of every one.
    pub fn judge(self, claim: impl Into<String>, found: &[f64], unit: &str) -> Verdict {
        let mut sorted = found.to_vec();
        sorted.sort_by(f64::total_cmp);
        let Some(middle) = quantile(&sorted, 0.5) else {
            let open = Verdict::open(claim, "nothing to compare took part");
            return Verdict { bounds: self.text(unit), ..open };
        };
        let (low, high) = (sorted[0], sorted[sorted.len() - 1]);
        let measured = match sorted.len() {
            1 => format!("{} {unit}", short(middle)),
            n => format!("{} {unit} ({} to {}, {n} cases)", short(middle), short(low), short(high)),
        };
        let rulings = match self.every {
            true => vec![self.rule(low), self.rule(high)],
            false => vec![self.rule(middle)],
        };
        let order = [
            Ruling::Missed,
            Ruling::Contradicted,
            Ruling::WithinNoise,
            Ruling::AsStated,
            Ruling::Reached,
        ];
        let ruling = order.into_iter().find(|ruling| rulings.contains(ruling));
        let ruling = ruling.unwrap_or(Ruling::Stronger);
        Verdict { claim: claim.into(), bounds: self.text(unit), measured, ruling }
    }

    /// `1.18 to 1.23 ×, more is stronger`.
    fn text(self, unit: &str) -> String {
        let mut text = match (self.least, self.most) {
            (f64::NEG_INFINITY, most) => format!("≤ {}", short(most)),
            (least, f64::INFINITY) => format!("≥ {}", short(least)),
            (least, most) => format!("{} to {}", short(least), short(most)),
        };
        if !unit.is_empty() {
            text = format!("{text} {unit}");
        }
        for (is, what) in [
            (self.upwards, "more is stronger"),
            (self.downwards, "less is stronger"),
            (self.every, "in every case"),
        ] {
            if is {
                text = format!("{text}, {what}");
            }
        }
        text
    }

    fn rule(self, value: f64) -> Ruling {
        let holds = (self.least..=self.most).contains(&value);
        if self.ours {
            return if holds { Ruling::Reached } else { Ruling::Missed };
        }
        // The order of two: as near to 1 from the other side is noise as well.
        let (low, high) = match (self.exact, self.least, self.most) {
            (true, least, f64::INFINITY) => (least / NOISE / NOISE, self.most),
            (true, f64::NEG_INFINITY, most) => (self.least, most * NOISE * NOISE),
            (true, least, most) => (least, most),
            (false, least, most) if self.counted => (least, most),
            (false, least, most) => (widened(least, false), widened(most, true)),
        };
        match value {
            _ if holds => Ruling::AsStated,
            _ if (low..=high).contains(&value) => Ruling::WithinNoise,
            _ if self.upwards && value > self.most => Ruling::Stronger,
            _ if self.downwards && value < self.least => Ruling::Stronger,
            _ => Ruling::Contradicted,
        }
    }
}

/// A tenth beyond a bound, away from what lies within.
fn widened(bound: f64, up: bool) -> f64 {
    if (bound > 0.0) == up { bound * NOISE } else { bound / NOISE }
}

/// What lies so far between the smallest and the largest, between two of them in
/// proportion: the median at 0.5. `None` of none.
pub fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = last as f64 * share;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    // Of two equal ones, also infinite.
    Some(if below == above { below } else { below + (above - below) * at.fract() })
}

/// Records of before there were rulings say whether a claim was confirmed.
fn stored<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Ruling, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Stored {
        Ruling(Ruling),
        Confirmed(Option<bool>),
    }
    Ok(match Stored::deserialize(from)? {
        Stored::Ruling(ruling) => ruling,
        Stored::Confirmed(Some(true)) => Ruling::AsStated,
        Stored::Confirmed(Some(false)) => Ruling::Contradicted,
        Stored::Confirmed(None) => Ruling::Open,
    })
}

/// What is the same on two machines: a tenth more or less.
const NOISE: f64 = 1.1;

/// Where what a paper calls slight without a figure ends: one of them says "less than 20 %" of a
/// small gain.
const SLIGHT: f64 = 1.2;

#[cfg(test)]
mod tests {
    use Ruling::{AsStated, Contradicted, Missed, Reached, Stronger, WithinNoise};

    use super::*;

    fn ruled(bound: Bound, found: &[f64]) -> Ruling {
        bound.judge("it holds", found, "×").ruling
    }

    #[test]
    fn the_median_of_an_even_count_lies_between_two() {
        assert_eq!(quantile(&[1.0, 2.0, 4.0, 9.0], 0.5), Some(3.0));
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.5), Some(2.0));
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[f64::INFINITY; 2], 0.5), Some(f64::INFINITY));
        // 1.0 and 1.5: the upper one alone would hold.
        assert_eq!(ruled(Bound::least(1.4), &[1.0, 1.5]), Contradicted);
    }

    #[test]
    fn a_gain_has_two_bounds() {
        let of = |value| ruled(Bound::gain(1.18, 1.23), &[value]);
        assert_eq!([1.18, 1.2, 1.23].map(of), [AsStated; 3]);
        assert_eq!([1.1, 1.3].map(of), [WithinNoise; 2]);
        assert_eq!([0.9, 1.05, 2.0].map(of), [Contradicted, Contradicted, Stronger]);
    }

    #[test]
    fn one_figure_is_stated_within_a_tenth() {
        let of = |value| ruled(Bound::gain_of(5.6), &[value]);
        assert_eq!([5.1, 6.1, 7.0, 3.0].map(of), [AsStated, AsStated, Stronger, Contradicted]);
        assert_eq!(ruled(Bound::about(0.65), &[0.8]), Contradicted);
        let cost = |value| ruled(Bound::cost_of(0.2), &[value]);
        assert_eq!([0.19, 0.1, 0.3].map(cost), [AsStated, Stronger, Contradicted]);
        let counted = |value| ruled(Bound::most(4.0).counted(), &[value]);
        assert_eq!([4.0, 4.01].map(counted), [AsStated, Contradicted]);
    }

    #[test]
    fn an_order_is_noise_next_to_equal() {
        let more = |value| ruled(Bound::more(), &[value]);
        assert_eq!(
            [1.2, 1.05, 0.95, 0.8].map(more),
            [AsStated, WithinNoise, WithinNoise, Contradicted]
        );
        let less = |value| ruled(Bound::less(), &[value]);
        assert_eq!(
            [0.8, 0.95, 1.05, 1.2].map(less),
            [AsStated, WithinNoise, WithinNoise, Contradicted]
        );
    }

    #[test]
    fn beyond_two_bounds_that_are_no_gain_is_another_result() {
        let of = |value| ruled(Bound::within(0.9, 1.0), &[value]);
        assert_eq!(
            [0.95, 1.05, 1.5, 0.7].map(of),
            [AsStated, WithinNoise, Contradicted, Contradicted]
        );
        let zero = |value| ruled(Bound::most(0.0), &[value]);
        assert_eq!([0.0, 0.1].map(zero), [AsStated, Contradicted]);
        let below = |value| ruled(Bound::within(-5.0, 5.0), &[value]);
        assert_eq!([-5.4, -6.0].map(below), [WithinNoise, Contradicted]);
    }

    /// Twice as much is not slightly more, and a tenth more not much more.
    #[test]
    fn words_without_a_figure_have_bounds() {
        let slightly = |value| ruled(Bound::slightly(), &[value]);
        assert_eq!(
            [0.8, 0.95, 1.1, 1.25, 2.23].map(slightly),
            [Contradicted, WithinNoise, AsStated, WithinNoise, Contradicted]
        );
        let much = |value| ruled(Bound::much(), &[value]);
        assert_eq!([1.0, 1.1, 1.2, 5.0].map(much), [Contradicted, WithinNoise, AsStated, AsStated]);
    }

    #[test]
    fn what_is_said_of_every_case_fails_by_one() {
        let found = [1.5, 2.0, 0.5];
        assert_eq!(ruled(Bound::least(1.0), &found), AsStated);
        assert_eq!(ruled(Bound::least(1.0).every(), &found), Contradicted);
        assert_eq!(ruled(Bound::gain(1.0, 1.2).every(), &[1.5, 2.0]), Stronger);
        assert_eq!(ruled(Bound::gain(1.0, 1.2).every(), &[1.1, 2.0]), AsStated);
    }

    #[test]
    fn a_verdict_says_both_bounds() {
        let of = |bound: Bound| bound.judge("", &[1.0], "×").bounds;
        assert_eq!(of(Bound::gain(1.18, 1.23)), "1.18 to 1.23 ×, more is stronger");
        assert_eq!(of(Bound::most(4.0).every()), "≤ 4 ×, in every case");
        assert_eq!(of(Bound::cost_of(1.1)), "1 to 1.21 ×, less is stronger");
        assert_eq!(Bound::least(2.0).judge("", &[], "M/s").bounds, "≥ 2 M/s");
        assert_eq!(Verdict::between("", 1.0, (0.5, 2.0), "ms").bounds, "0.5 to 2 ms");
        assert_eq!(Verdict::at_most("", 1.0, 2.0, "ms").bounds, "≤ 2 ms");
    }

    #[test]
    fn goals_know_no_noise() {
        let of = |value| ruled(Bound::least(2.0).ours(), &[value]);
        assert_eq!([2.0, 1.99].map(of), [Reached, Missed]);
        assert_eq!(Verdict::at_most("few", 1.01, 1.0, "").ruling, Missed);
        assert_eq!(Verdict::between("some", 0.0, (0.1, 1.0), "").ruling, Missed);
    }

    #[test]
    fn older_records_are_read() {
        let of = |confirmed: &str| {
            let text = format!("{{\"claim\":\"c\",\"measured\":\"m\",\"confirmed\":{confirmed}}}");
            serde_json::from_str::<Verdict>(&text).unwrap().ruling
        };
        assert_eq!(["true", "false", "null"].map(of), [AsStated, Contradicted, Ruling::Open]);
    }
}

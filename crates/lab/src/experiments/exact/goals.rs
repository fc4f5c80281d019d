//! The goals of `mac-table`, and what came of them: of the best slices, as they are
//! set, and the medians beside them.

use super::{BILLION, EIGHT_MILLION, LINES, MILLION, NAME, NAME_PORTABLE, PAPER, SIXTY_MILLION};
use crate::record::{Figure, short};
use crate::{Row, Verdict};

/// One verdict for each goal that the rows have figures for.
pub(super) fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let sizes = [MILLION, EIGHT_MILLION, SIXTY_MILLION, BILLION];
    sizes.iter().flat_map(|&size| of_size(rows, size)).collect()
}

fn of_size(rows: &[Row], size: usize) -> Vec<Verdict> {
    let entries = &*size.to_string();
    let of = |engine: &str, figure: &str| {
        let labels = [("engine", engine), ("entries", entries)];
        rows.iter().find(|row| row.is(&labels))?.figures.get(figure).copied()
    };
    let ours = |figure: &str| of(NAME, figure);
    let rate = ours("rate_mlps");
    let claim = |text: &str| format!("mac-table, {entries} entries: {text}");
    let ratio = |figure: Option<Figure>| Some(over(rate?, figure?));
    let judge = |text: &str, figure: Option<Figure>, bound: Bound, unit: &str| {
        figure.map(|figure| bound.judge(claim(text), figure, unit))
    };
    let report = |text: &str, figure: Option<Figure>| {
        figure.map(|figure| Verdict::beside(claim(text), in_words(figure, "%")))
    };
    let goals = [(MILLION, 130.0), (SIXTY_MILLION, 88.0), (BILLION, 40.0)];
    let goal = goals.into_iter().find(|(of_size, _)| *of_size == size).map(|(_, least)| least);
    let lookups = goal.map(|least| format!("≥ {least} M lookups/s (Zen 3)"));
    let share = ratio(of(LINES, "rate_mlps")).map(|share| share.scaled(100.0));
    let two = if size == MILLION { 1.8 } else { 1.6 };
    let half = ours("half_misses_mlps").zip(rate).map(|(half, all)| over(half, all).scaled(100.0));
    let [(_, batch), rest @ ..] = PAPER;
    let best = rest.iter().filter_map(|(_, name)| of(name, "rate_mlps"));
    let best = best.max_by(|a, b| a.best.total_cmp(&b.best));
    let filled = if size == BILLION { 4.0 } else { 5.0 };
    let rivals = [
        ("≥ 3 × rte_hash in bulk", of("rte_hash", "rate_mlps"), 3.0),
        ("≥ 3 × the paper's table at its batch of 14", of(batch, "rate_mlps"), 3.0),
        ("≥ 2.2 × the paper's table at its best batch", best, 2.2),
    ];
    // With what instructions it has, and with no more than the paper's table.
    let sides = [("", rate), ("without vector instructions, ", of(NAME_PORTABLE, "rate_mlps"))];
    let beside = sides.into_iter().flat_map(|(by, rate)| {
        rivals.into_iter().filter_map(move |(text, rival, least)| {
            judge(&format!("{by}{text}"), Some(over(rate?, rival?)), Bound::Least(least), "×")
        })
    });
    let verdicts = [
        lookups.and_then(|text| judge(&text, rate, Bound::Least(goal?), "M/s")),
        report("lookups by independent random lines (a hit reads 1.17)", share),
        judge(
            &format!("two threads ≥ {two} × one"),
            ours("two_threads_ratio"),
            Bound::Least(two),
            "×",
        ),
        judge("half misses at ≥ 60 % of the hit rate", half, Bound::Least(60.0), "%"),
        judge(
            &format!("filled at ≥ {filled} M inserts/s"),
            ours("insert_mps"),
            Bound::Least(filled),
            "M/s",
        ),
        ours("beside_updates_pct").map(|cost| {
            let text = claim("500,000 updates/s on another core cost readers ≤ 6 %");
            Bound::Most(6.0).judge(text, cost, "%")
        }),
        report(
            "as many updates of a table that nobody reads cost them",
            ours("beside_other_updates_pct"),
        ),
        report("two slices without any updates differ by", ours("beside_none_pct")),
    ];
    verdicts.into_iter().flatten().chain(beside).collect()
}

#[derive(Clone, Copy)]
enum Bound {
    Least(f64),
    Most(f64),
}

impl Bound {
    fn judge(self, claim: String, figure: Figure, unit: &str) -> Verdict {
        let reached = match self {
            Bound::Least(least) => figure.best >= least,
            Bound::Most(most) => figure.best <= most,
        };
        Verdict::goal(claim, in_words(figure, unit), reached)
    }
}

fn in_words(figure: Figure, unit: &str) -> String {
    let Figure { median, best, samples, .. } = figure;
    if samples < 2 {
        return format!("{} {unit}", short(best));
    }
    format!("{} {unit} in the best slices, median {}", short(best), short(median))
}

/// The ratio of the best slices, and of the medians.
pub(super) fn over(one: Figure, other: Figure) -> Figure {
    Figure { median: one.median / other.median, best: one.best / other.best, ..one }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Ruling;

    #[test]
    fn goals_are_judged_by_the_best_slices() {
        let row = |engine: &str, median, best| {
            let labels = [("engine", engine.to_string()), ("entries", MILLION.to_string())];
            let figure = Figure { median, best, spread: 0.1, samples: 11 };
            Row::new(labels).with("rate_mlps", figure)
        };
        let ours = row(NAME, 90.0, 140.0).with("insert_mps", 4.0);
        let portable = row(NAME_PORTABLE, 80.0, 120.0);
        let rows = [ours, row("cuckoo-14", 20.0, 50.0), row("cuckoo", 45.0, 60.0), portable];
        let verdicts = verdicts(&rows);
        let said = |part: &str| {
            let verdict = verdicts.iter().find(|verdict| verdict.claim.contains(part)).unwrap();
            (verdict.measured.as_str(), verdict.holds())
        };
        assert_eq!(said("130 M"), ("140 M/s in the best slices, median 90", Some(true)));
        assert_eq!(
            said(": ≥ 3 × the paper's table at its batch of 14"),
            ("2.8 × in the best slices, median 4.5", Some(false))
        );
        assert_eq!(said("vector instructions, ≥ 3 ×").0, "2.4 × in the best slices, median 4");
        assert_eq!(said(": ≥ 2.2 ×"), ("2.333 × in the best slices, median 2", Some(true)));
        assert_eq!(said("filled at"), ("4 M/s", Some(false)));
        assert_eq!(verdicts.len(), 6);
    }

    #[test]
    fn a_goal_allows_for_no_noise() {
        let ruling = |loss: f64, noise: f64| {
            let labels = [("engine", NAME.to_string()), ("entries", MILLION.to_string())];
            let row = Row::new(labels).with("beside_updates_pct", loss);
            let verdicts = verdicts(&[row.with("beside_none_pct", noise)]);
            verdicts.iter().find(|verdict| verdict.claim.contains("500,000")).unwrap().ruling
        };
        assert_eq!(ruling(5.9, 0.1), Ruling::Reached);
        assert_eq!(ruling(6.1, 10.5), Ruling::Missed);
    }
}

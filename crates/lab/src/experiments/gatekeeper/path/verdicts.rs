//! What the rows say of the goals.

use super::cells::{COST, GATEKEEPER, HANDED, LINES, ONE, PORTS, ROUTER, TESTPMD, TWO};
use crate::record::short;
use crate::{Row, Verdict};

pub(super) fn requests(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = vec![cycles(rows, ("requests", "2^20"), 230.0)];
    let claim = "2^25 places: 0.6 to 1.5 × as many as its lines read alone";
    let rate = |variant| figure(rows, ("requests", "2^25", variant), "rate_mpps");
    verdicts.push(match (rate(GATEKEEPER), rate(LINES)) {
        (Some(ours), Some(lines)) => Verdict::between(claim, ours / lines, (0.6, 1.5), "×"),
        _ => Verdict::open(claim, "not measured here"),
    });
    verdicts.push(workers(rows, "requests"));
    verdicts.extend(beside(rows, ("requests", "2^20")));
    verdicts
}

pub(super) fn declined(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts: Vec<_> =
        ["2^16", "2^20"].map(|flows| cycles(rows, ("declined", flows), 145.0)).into();
    verdicts.extend(beside(rows, ("declined", "2^20")));
    verdicts
}

pub(super) fn granted(rows: &[Row]) -> Vec<Verdict> {
    let goals = [("2^16", 175.0), ("2^20", 220.0)];
    let mut verdicts: Vec<_> =
        goals.map(|(flows, most)| cycles(rows, ("granted", flows), most)).into();
    verdicts.push(workers(rows, "granted"));
    verdicts.extend(beside(rows, ("granted", "2^20")));
    verdicts
}

pub(super) fn mixed(rows: &[Row]) -> Vec<Verdict> {
    let claim = "mixed, 2^20 flows: eight requests, a grant, a declined packet in ten";
    let all = figure(rows, ("mixed", "2^20", GATEKEEPER), "less_generator");
    let all = all.map_or("not measured here".into(), |all| format!("{} cycles", short(all)));
    let cost = |name: &str| figure(rows, ("granted", "2^20", COST), name);
    let claims = [
        ("1,000,000 decisions/s on two workers cost granted flows −5 to 5 %", "loss_percent"),
        ("two slices without decisions differ by as much", "noise_percent"),
        ("decisions a second are 950,000 to 1,100,000", "decisions_per_s"),
        ("one worker hands the other 40 to 60 % of the decisions", HANDED),
    ];
    let verdict = |(claim, name): (&str, &str)| match cost(name) {
        None => Verdict::open(claim, "not measured here"),
        Some(heard) if name == "decisions_per_s" => {
            Verdict::between(claim, heard, (950_000.0, 1_100_000.0), "decisions/s")
        }
        Some(share) if name == HANDED => Verdict::between(claim, share, (40.0, 60.0), "%"),
        Some(loss) if name == "loss_percent" => Verdict::between(claim, loss, (-5.0, 5.0), "%"),
        Some(noise) => Verdict::beside(claim, format!("{} %", short(noise))),
    };
    [Verdict::beside(claim, all)].into_iter().chain(claims.map(verdict)).collect()
}

fn figure(rows: &[Row], (kind, flows, variant): (&str, &str, &str), name: &str) -> Option<f64> {
    let labels = [("kind", kind), ("flows", flows), ("variant", variant)];
    rows.iter().find(|row| row.is(&labels))?.median(name)
}

/// A goal in cycles; nothing takes less than [`LEAST`].
fn cycles(rows: &[Row], (kind, flows): (&str, &str), most: f64) -> Verdict {
    let claim = format!("{kind}, {flows}: {LEAST} to {most} cycles without the generator's");
    match figure(rows, (kind, flows, GATEKEEPER), "less_generator") {
        Some(cycles) => Verdict::between(claim, cycles, (LEAST, most), "cycles"),
        None => Verdict::open(claim, "not measured here"),
    }
}

fn workers(rows: &[Row], kind: &str) -> Verdict {
    let claim = format!("{kind}: two workers do 1.8 to 2.3 × what one does");
    let rate = |variant| figure(rows, (kind, "2^20", variant), "rate_mpps");
    match (rate(ONE), rate(TWO)) {
        (Some(one), Some(two)) => Verdict::between(claim, two / one, (1.8, 2.3), "×"),
        _ => Verdict::open(claim, "not measured here"),
    }
}

/// What others take in the same run.
fn beside(rows: &[Row], (kind, flows): (&str, &str)) -> Vec<Verdict> {
    let of = |variant: &str| {
        let cycles = figure(rows, (kind, flows, variant), "cycles")?;
        let claim = format!("{kind}, {flows}: beside it, {variant}");
        Some(Verdict::beside(claim, format!("{} cycles", short(cycles))))
    };
    [LINES, ROUTER, PORTS, TESTPMD].into_iter().filter_map(of).collect()
}

/// Receive, the first three nodes and one more take as much.
const LEAST: f64 = 40.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: &str, flows: &str, variant: &str, name: &str, value: f64) -> Row {
        let labels = [("kind", kind), ("flows", flows), ("variant", variant)];
        Row::new(labels).with(name, value)
    }

    fn held(verdicts: Vec<Verdict>) -> Vec<Option<bool>> {
        verdicts.into_iter().map(|verdict| verdict.holds()).collect()
    }

    #[test]
    fn every_verdict_can_fail() {
        let of = |cycles: f64, ours: f64, two: f64| {
            requests(&[
                row("requests", "2^20", GATEKEEPER, "less_generator", cycles),
                row("requests", "2^25", GATEKEEPER, "rate_mpps", ours),
                row("requests", "2^25", LINES, "rate_mpps", 10.0),
                row("requests", "2^20", ONE, "rate_mpps", 10.0),
                row("requests", "2^20", TWO, "rate_mpps", two),
            ])
        };
        assert_eq!(held(of(200.0, 7.0, 19.0)), [Some(true); 3]);
        assert_eq!(held(of(231.0, 5.9, 17.9)), [Some(false); 3]);
        assert_eq!(held(of(10.0, 20.0, 30.0)), [Some(false); 3]);
        assert_eq!(held(requests(&[])), [None; 3]);
        let granted = |most: f64| {
            let of = |flows| row("granted", flows, GATEKEEPER, "less_generator", most);
            held(super::granted(&[of("2^16"), of("2^20")]))[..2].to_vec()
        };
        assert_eq!(granted(200.0), [Some(false), Some(true)]);
        let mixed = |loss: f64, heard: f64, handed: f64| {
            let cost = row("granted", "2^20", COST, "loss_percent", loss);
            held(super::mixed(&[cost.with("decisions_per_s", heard).with(HANDED, handed)]))
        };
        let all = |holds| [None, Some(holds), None, Some(holds), Some(holds)];
        assert_eq!(mixed(2.0, 1_000_000.0, 50.0), all(true));
        assert_eq!(mixed(6.0, 100_000.0, 0.0), all(false));
    }
}

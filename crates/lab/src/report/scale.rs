//! Axes: from figures to places between the two ends, and ticks at round figures.

use crate::record::short;

/// An axis from a low to a high figure.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    kind: Kind,
}

/// What a step along an axis means.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// So much more, from zero on: bars may be drawn.
    FromZero,
    /// So much more, from the smallest figure on.
    Linear,
    /// The same in whole numbers: threads.
    Whole,
    /// So many times as much.
    Log,
    /// The same in powers of two.
    Binary,
}

/// A round figure on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    /// The figure.
    pub at: f64,
    /// What it is read by.
    pub name: String,
    /// It may be left out where there is no room.
    pub minor: bool,
}

impl Scale {
    /// The narrowest axis with round ends that holds all of `values`.
    pub fn over(values: &[f64], kind: Kind) -> Scale {
        let used = |value: &&f64| value.is_finite() && (!kind.is_log() || **value > 0.0);
        let fold =
            |best: f64, of: fn(f64, f64) -> f64| values.iter().filter(used).copied().fold(best, of);
        let (low, most) = (fold(f64::INFINITY, f64::min), fold(f64::NEG_INFINITY, f64::max));
        if low > most {
            return Scale { low: 0.0, high: 1.0, kind: Kind::FromZero };
        }
        let (low, high) = match kind {
            Kind::Linear | Kind::Whole => (low, most),
            Kind::FromZero => {
                let (low, high) = (low.min(0.0), most.max(0.0));
                let high = if low == high { low + 1.0 } else { high };
                let step = step(high - low, TICKS);
                ((low / step).floor() * step, (high / step - 1e-9).ceil() * step)
            }
            Kind::Log => (below(low), above(most).max(above(low * 1.5))),
            Kind::Binary => (low.log2().floor().exp2(), most.log2().ceil().exp2()),
        };
        let high = match kind {
            Kind::Binary if high <= low => low * 2.0,
            Kind::Linear | Kind::Whole if high <= low => low + 1.0,
            _ => high,
        };
        Scale { low, high, kind }
    }

    /// Where `value` is between the two ends: from 0 to 1.
    pub fn place(&self, value: f64) -> f64 {
        let along = |value: f64| if self.kind.is_log() { value.ln() } else { value };
        // Nothing is below the end of a logarithmic axis: a zero is at the end.
        let value = if self.kind.is_log() { value.max(self.low) } else { value };
        (along(value) - along(self.low)) / (along(self.high) - along(self.low))
    }

    /// True when a bar from its low end says how much.
    pub fn has_zero(&self) -> bool {
        self.kind == Kind::FromZero
    }

    /// Round figures on the axis.
    pub fn ticks(&self) -> Vec<Tick> {
        let places: Vec<f64> = match self.kind {
            Kind::Log => powers(self.low, self.high),
            Kind::Binary => {
                let (low, high) = (self.low.log2().round() as i32, self.high.log2().round() as i32);
                let step = ((high - low) as usize).div_ceil(TICKS).max(1);
                (low..=high).step_by(step).map(|power| f64::from(power).exp2()).collect()
            }
            kind => {
                let step = match kind {
                    Kind::Whole => step(self.high - self.low, WHOLE).max(1.0).ceil(),
                    _ => step(self.high - self.low, TICKS),
                };
                let first = (self.low / step - 1e-9).ceil() as i64;
                let last = (self.high / step + 1e-9).floor() as i64;
                (first..=last).map(|n| n as f64 * step).collect()
            }
        };
        let tick = |(i, at): (usize, f64)| Tick {
            at,
            name: if self.kind == Kind::Binary { binary(at) } else { decimal(at) },
            minor: match self.kind {
                Kind::Log => (at.log10() - at.log10().round()).abs() > 1e-9,
                _ => i % 2 == 1,
            },
        };
        places.into_iter().enumerate().map(tick).collect()
    }
}

impl Kind {
    fn is_log(self) -> bool {
        matches!(self, Kind::Log | Kind::Binary)
    }
}

/// The smallest of 1, 2 and 5 times a power of ten that divides `span` into no more than
/// `most` steps.
fn step(span: f64, most: usize) -> f64 {
    let power = 10_f64.powf((span / most as f64).log10().floor());
    let fits = |step: &f64| span / step <= most as f64 + 1e-9;
    [1.0, 2.0, 5.0].map(|n| n * power).into_iter().find(fits).unwrap_or(10.0 * power)
}

/// 1, 2 and 5 times the powers of ten around `value`.
fn round(value: f64) -> [f64; 5] {
    let power = 10_f64.powf(value.log10().floor());
    [0.5, 1.0, 2.0, 5.0, 10.0].map(|n| n * power)
}

/// The largest of them that is not above `value`.
fn below(value: f64) -> f64 {
    round(value).into_iter().rev().find(|n| *n <= value * (1.0 + 1e-9)).unwrap_or(value)
}

/// The smallest of them that is not below `value`.
fn above(value: f64) -> f64 {
    round(value).into_iter().find(|n| *n >= value * (1.0 - 1e-9)).unwrap_or(value)
}

/// Ticks of a logarithmic axis: powers of ten, or 1, 2 and 5 times them where it is short.
fn powers(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let step = ((last - first) as usize).div_ceil(TICKS).max(1);
    let between: &[f64] = match (high / low).log10() {
        ..=3.0 => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    let all = (first..=last).filter(|n| n.rem_euclid(step as i32) == 0);
    let all = all.flat_map(|n| between.iter().map(move |m| m * 10_f64.powi(n)));
    all.filter(|n| (low * (1.0 - 1e-9)..=high * (1.0 + 1e-9)).contains(n)).collect()
}

/// `4100` as `4.1 k`; what is below a thousand as it is.
pub(super) fn decimal(value: f64) -> String {
    let power = (value.abs().max(1.0).log10() / 3.0 + 1e-12).floor().min(4.0);
    let unit = ["", " k", " M", " G", " T"][power as usize];
    let digits = value / 10_f64.powf(power * 3.0);
    let digits = if power > 0.0 { (digits * 100.0).round() / 100.0 } else { digits };
    format!("{}{unit}", short(digits))
}

/// `4096` as `4 Ki`.
fn binary(value: f64) -> String {
    let power = (value.max(1.0).log2() / 10.0).floor().min(4.0);
    let unit = ["", " Ki", " Mi", " Gi", " Ti"][power as usize];
    format!("{}{unit}", short(value / (power * 10.0).exp2()))
}

/// About as many ticks as an axis of a page has room for.
const TICKS: usize = 6;
/// The same of whole numbers, which are short.
const WHOLE: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn names(values: &[f64], kind: Kind) -> Vec<String> {
        Scale::over(values, kind).ticks().into_iter().map(|tick| tick.name).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(names(&[3.0, 941.0], Kind::FromZero), ["0", "200", "400", "600", "800", "1 k"]);
        assert_eq!(names(&[0.13, 0.37], Kind::FromZero), ["0", "0.1", "0.2", "0.3", "0.4"]);
        assert_eq!(names(&[-3.0, 7.0], Kind::FromZero), ["-4", "-2", "0", "2", "4", "6", "8"]);
        assert_eq!(names(&[5e5, 2e6], Kind::Linear), ["500 k", "1 M", "1.5 M", "2 M"]);
        assert_eq!(names(&[0.0], Kind::FromZero), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(names(&[100.0], Kind::FromZero), ["0", "20", "40", "60", "80", "100"]);
        assert!(names(&[], Kind::Log).len() > 1 && names(&[f64::NAN], Kind::FromZero).len() > 1);
    }

    #[test]
    fn threads_are_whole() {
        assert_eq!(names(&[1.0, 2.0], Kind::Whole), ["1", "2"]);
        assert_eq!(names(&[1.0, 8.0], Kind::Whole), ["1", "2", "3", "4", "5", "6", "7", "8"]);
        assert_eq!(names(&[1.0, 32.0], Kind::Whole), ["5", "10", "15", "20", "25", "30"]);
        assert_eq!(names(&[3.0], Kind::Whole), ["3", "4"]);
    }

    #[test]
    fn factors_have_ticks_of_factors() {
        assert_eq!(names(&[3.0, 40.0], Kind::Log), ["2", "5", "10", "20", "50"]);
        assert_eq!(names(&[0.02, 700.0], Kind::Log), ["0.1", "1", "10", "100", "1 k"]);
        assert_eq!(names(&[4096.0, 32_768.0], Kind::Binary), ["4 Ki", "8 Ki", "16 Ki", "32 Ki"]);
        assert_eq!(names(&[1.0, 1e9], Kind::Binary).first().unwrap(), "1");
        assert!(names(&[1.0, 1e9], Kind::Binary).len() <= TICKS + 1);
    }

    #[test]
    fn places_lie_between_the_ends() {
        for kind in [Kind::FromZero, Kind::Linear, Kind::Whole, Kind::Log, Kind::Binary] {
            let values = [2.0, 3.0, 50.0];
            let scale = Scale::over(&values, kind);
            let places = values.map(|value| scale.place(value));
            assert!(places.is_sorted(), "{kind:?}");
            assert!(places[0] >= 0.0 && places[2] <= 1.0, "{kind:?}: {places:?}");
            assert!(scale.ticks().iter().all(|tick| (0.0..=1.0).contains(&scale.place(tick.at))));
        }
        assert_eq!(Scale::over(&[1.0, 100.0], Kind::Log).place(10.0), 0.5);
        // A zero has no place among factors; it is at the low end.
        assert_eq!(Scale::over(&[0.0, 1.0, 100.0], Kind::Log).place(0.0), 0.0);
    }

    #[test]
    fn numbers_read_in_thousands_and_in_units_of_memory() {
        let cases =
            [(0.0, "0"), (999.0, "999"), (1000.0, "1 k"), (1.234e6, "1.23 M"), (1e9, "1 G")];
        for (value, text) in cases {
            assert_eq!(decimal(value), text);
        }
        assert_eq!([4096.0, 1.0, f64::from(1 << 30)].map(binary), ["4 Ki", "1", "1 Gi"]);
    }
}

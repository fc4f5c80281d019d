//! Horizontal bars, one line for each thing compared, the winner on top: what
//! many engines need, whose names are words.

use std::fmt::Write;

use super::marks::{color, distinct, escape, value};
use crate::record::short;
use crate::{Plot, Row, Style};

/// The picture of one panel.
pub(super) fn draw(plot: &Plot, title: &str, rows: &[&Row]) -> String {
    let scale = Scale::new(plot, rows);
    let series = distinct(rows, plot.series);
    let lines = order(plot, rows);
    let line_height = (BAR * series.len() as u32 + GAP).max(LEAST_LINE);
    let height = TOP + line_height * lines.len() as u32 + BOTTOM;
    let mut svg = format!(
        "<svg width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
        xmlns=\"http://www.w3.org/2000/svg\" font-family=\"sans-serif\" font-size=\"12\">\n\
        <text x=\"{}\" y=\"20\" font-size=\"18\" text-anchor=\"middle\">{}</text>\n",
        WIDTH / 2,
        escape(title)
    );
    legend(&mut svg, &series);
    axis(&mut svg, &scale, height, plot.unit);
    for (i, line) in lines.iter().enumerate() {
        let y = TOP + line_height * i as u32;
        let middle = y + line_height / 2;
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            LEFT - 8,
            middle + 4,
            escape(line)
        );
        let used = BAR * series.len() as u32;
        for (s, name) in series.iter().enumerate() {
            let is = |row: &&&Row| value(row, plot.x) == *line && value(row, plot.series) == *name;
            let Some(row) = rows.iter().find(is) else { continue };
            let bar = y + (line_height - used) / 2 + BAR * s as u32;
            scale.bar(&mut svg, row, bar, s);
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// From figures to places.
struct Scale<'p> {
    figure: &'p str,
    log: bool,
    low: f64,
    high: f64,
}

impl<'p> Scale<'p> {
    fn new(plot: &'p Plot, rows: &[&Row]) -> Self {
        let log = plot.style == Style::RankedLog;
        let values = || rows.iter().filter_map(|row| row.median(plot.figure));
        let most = values().fold(0.0, f64::max);
        let least = values().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        let least = if least.is_finite() { least } else { 1.0 };
        let (low, high) = if log {
            ((least / 1.5).log10().floor(), most.max(least).log10().ceil())
        } else {
            (0.0, if most > 0.0 { most * 1.05 } else { 1.0 })
        };
        Scale { figure: plot.figure, log, low, high: high.max(low + 1e-9) }
    }

    fn x(&self, value: f64) -> f64 {
        let place = if self.log { value.max(1e-12).log10().max(self.low) } else { value };
        f64::from(LEFT) + (place - self.low) / (self.high - self.low) * f64::from(SPAN)
    }

    /// Where the grid has its lines.
    fn ticks(&self) -> Vec<f64> {
        if self.log {
            return (self.low as i32..=self.high as i32).map(|n| 10_f64.powi(n)).collect();
        }
        let step = 10_f64.powf((self.high / 4.0).log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * step);
        let step = step.into_iter().find(|step| self.high / step <= 8.0).unwrap_or(self.high);
        (0..=(self.high / step) as u32).map(|n| f64::from(n) * step).collect()
    }

    fn bar(&self, svg: &mut String, row: &Row, y: u32, series: usize) {
        let Some(figure) = row.figures.get(self.figure) else { return };
        let (end, color) = (self.x(figure.median), color(series));
        let _ = writeln!(
            svg,
            "<rect x=\"{LEFT}\" y=\"{y}\" width=\"{:.1}\" height=\"{}\" fill=\"rgb({},{},{})\"/>\
            <text x=\"{:.1}\" y=\"{}\" font-size=\"9\" fill=\"#444\">{}</text>",
            (end - f64::from(LEFT)).max(1.0),
            BAR - 1,
            color.0,
            color.1,
            color.2,
            end + 4.0,
            y + BAR - 2,
            short3(figure.median),
        );
    }
}

/// The values of `x`, the best first: by the sum over all bars.
fn order(plot: &Plot, rows: &[&Row]) -> Vec<String> {
    let mut lines = distinct(rows, plot.x);
    let sum = |line: &String| -> f64 {
        let of = rows.iter().filter(|row| value(row, plot.x) == *line);
        of.filter_map(|row| row.median(plot.figure)).sum()
    };
    lines.sort_by(|a, b| sum(b).total_cmp(&sum(a)));
    if plot.style == Style::RankedLog {
        lines.reverse();
    }
    lines
}

fn legend(svg: &mut String, series: &[String]) {
    let mut x = LEFT;
    if series.len() < 2 {
        return;
    }
    for (s, name) in series.iter().enumerate() {
        let color = color(s);
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"32\" width=\"10\" height=\"10\" fill=\"rgb({},{},{})\"/>\
            <text x=\"{}\" y=\"41\">{}</text>",
            color.0,
            color.1,
            color.2,
            x + 15,
            escape(name)
        );
        x += 40 + 7 * name.chars().count() as u32;
    }
}

fn axis(svg: &mut String, scale: &Scale<'_>, height: u32, unit: &str) {
    let bottom = height - BOTTOM;
    for tick in scale.ticks() {
        let x = scale.x(tick);
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"#e5e5e5\"/>\
            <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\" fill=\"#555\">{}</text>",
            bottom + 15,
            short(tick)
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"#555\">{}</text>",
        LEFT + SPAN / 2,
        bottom + 32,
        escape(unit)
    );
}

/// Three digits are enough beside a bar.
fn short3(value: f64) -> String {
    let digits = if value == 0.0 { 0 } else { 2 - value.abs().log10().floor() as i32 };
    format!("{value:.*}", digits.clamp(0, 6) as usize)
}

const WIDTH: u32 = 920;
const LEFT: u32 = 150;
const SPAN: u32 = 700;
const TOP: u32 = 52;
const BOTTOM: u32 = 40;
const BAR: u32 = 10;
const GAP: u32 = 5;
const LEAST_LINE: u32 = 18;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_winner_stands_on_top() {
        let row =
            |engine: &str, rate: f64| Row::new([("engine", engine.to_string())]).with("rate", rate);
        let rows = [row("slow", 5.0), row("quick", 100.0), row("<odd>", 20.0)];
        let rows: Vec<&Row> = rows.iter().collect();
        let plot = |style| Plot {
            title: "Rate",
            figure: "rate",
            unit: "M/s",
            x: "engine",
            series: "engine",
            panels: &[],
            style,
        };
        for (style, names) in [
            (Style::Ranked, ["quick", "&lt;odd&gt;", "slow"]),
            (Style::RankedLog, ["slow", "&lt;odd&gt;", "quick"]),
        ] {
            let svg = draw(&Plot { series: "family", ..plot(style) }, "Rate", &rows);
            let places = names.map(|name| svg.find(&format!(">{name}<")).unwrap());
            assert!(places.is_sorted(), "{style:?}");
            assert!(svg.contains("M/s") && svg.ends_with("</svg>\n"));
        }
    }
}

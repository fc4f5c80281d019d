//! Lines over an axis of numbers.

use super::looks::{Looks, distinct, value};
use super::papers::Point;
use super::rows::hides;
use super::scale::{Kind, Scale, Tick};
use super::svg::Svg;
use crate::{Plot, Row, Style};

/// The picture of one panel, or nothing where `x` holds words.
pub(super) fn draw(
    plot: &Plot,
    rows: &[&Row],
    points: &[&Point],
    looks: &Looks,
    says: &str,
) -> Option<String> {
    let series = lines(plot, rows, points)?;
    let (x, y) = (across(plot, &series), upwards(plot, &series));
    let place =
        |at: f64, value: f64| (x.place(at).mul_add(INSIDE, EDGE), (1.0 - y.place(value)) * HIGH);
    let mut svg = Svg::new(HIGH as u32);
    for Tick { at, name, minor } in x.ticks() {
        let (at, _) = place(at, 1.0);
        svg.line("g", (at, HIGH), (at, HIGH + 4.0));
        let class = if minor { "t n" } else { "t" };
        svg.text(class, (at, HIGH + 17.0), &name);
    }
    for Tick { at, name, .. } in y.ticks() {
        let (_, at) = place(1.0, at);
        svg.line("g", (0.0, at), (1.0, at));
        svg.text("y", (0.0, at + 4.0), &name);
    }
    for line in &series {
        let look = looks.of(&line.name);
        let dash = if line.paper { "p".to_string() } else { look.dash.to_string() };
        let path: Vec<(f64, f64)> = line.points.iter().map(|p| place(p.x, p.value)).collect();
        if path.len() > 1 {
            svg.polyline(&format!("l c{} d{dash}", look.color), &path);
        }
        for (point, at) in line.points.iter().zip(&path) {
            let ends = [point.from, point.to].map(|value| place(point.x, value).1.clamp(0.0, HIGH));
            if ends[0] - ends[1] > 3.0 {
                svg.line("e", (at.0, ends[0]), (at.0, ends[1]));
            }
            svg.mark(look, line.paper, *at);
        }
    }
    Some(svg.finish(says))
}

/// One line of the picture.
struct Line {
    name: String,
    paper: bool,
    points: Vec<Place>,
}

/// A figure at a place.
struct Place {
    x: f64,
    value: f64,
    from: f64,
    to: f64,
}

/// Ours, then those of the paper; nothing where a place is no number.
fn lines(plot: &Plot, rows: &[&Row], points: &[&Point]) -> Option<Vec<Line>> {
    let mut lines = Vec::new();
    for name in distinct(rows, plot.series) {
        let of = rows.iter().filter(|row| value(row, plot.series) == name);
        let place = |row: &&Row| {
            let figure = row.figures.get(plot.figure)?;
            let (from, to) = figure.middle();
            let x = row.label(plot.x).parse::<f64>();
            Some(x.map(|x| Place { x, value: figure.median, from, to }))
        };
        let places: Result<Vec<Place>, _> = of.filter_map(place).collect();
        lines.push(Line { name, paper: false, points: places.ok()? });
    }
    for point in points {
        let (value, x) = (point.middle(), point.x.parse().ok()?);
        let place = Place { x, value, from: point.value, to: point.to };
        match lines.iter_mut().find(|line| line.paper && line.name == point.series) {
            Some(line) => line.points.push(place),
            None => {
                lines.push(Line { name: point.series.into(), paper: true, points: vec![place] })
            }
        }
    }
    lines.iter_mut().for_each(|line| line.points.sort_by(|a, b| a.x.total_cmp(&b.x)));
    Some(lines)
}

fn across(plot: &Plot, lines: &[Line]) -> Scale {
    let values: Vec<f64> = lines.iter().flat_map(|line| &line.points).map(|p| p.x).collect();
    let power = |x: &f64| *x >= 1.0 && x.log2().fract() == 0.0;
    let kind = match plot.style {
        Style::LogLines | Style::LogLog if values.iter().all(power) => Kind::Binary,
        Style::LogLines | Style::LogLog if values.iter().all(|x| *x > 0.0) => Kind::Log,
        _ if values.iter().all(|x| x.fract() == 0.0) => Kind::Whole,
        _ => Kind::Linear,
    };
    Scale::over(&values, kind)
}

/// From zero, unless the plot asks for factors or the best line hides another.
fn upwards(plot: &Plot, lines: &[Line]) -> Scale {
    let places = || lines.iter().flat_map(|line| &line.points);
    let positive = places().all(|place| place.value > 0.0);
    let highest = |line: &Line| line.points.iter().map(|p| p.value).fold(0.0, f64::max);
    let wanted = matches!(plot.style, Style::LogY | Style::LogLog);
    let hidden = positive && hides(lines.iter().map(highest));
    let log = wanted || hidden;
    let ends = places().flat_map(|p| [p.from, p.value, p.to]);
    let ends: Vec<f64> = ends.filter(|value| !log || *value > 0.0).collect();
    Scale::over(&ends, if log { Kind::Log } else { Kind::FromZero })
}

/// Pixels of height.
const HIGH: f64 = 260.0;
/// Room at the left and at the right, of the width, and what is left.
const EDGE: f64 = 0.02;
const INSIDE: f64 = 1.0 - 2.0 * EDGE;

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(style: Style) -> Plot {
        let (figure, x, series) = ("rate", "threads", "engine");
        Plot { title: "Rate", figure, unit: "M/s", x, series, panels: &[], style }
    }

    fn row(engine: &str, threads: &str, rate: f64) -> Row {
        let labels = [("engine", engine.to_string()), ("threads", threads.to_string())];
        let figure = crate::Figure { median: rate, best: rate, spread: 0.2, samples: 11 };
        Row::new(labels).with("rate", figure)
    }

    fn drawn(style: Style, rows: &[Row], points: &[&Point]) -> Option<String> {
        let rows: Vec<&Row> = rows.iter().collect();
        draw(&plot(style), &rows, points, &Looks::new(&distinct(&rows, "engine")), "says")
    }

    #[test]
    fn threads_are_whole_and_the_papers_points_are_hollow() {
        let rows = [row("a", "2", 20.0), row("a", "1", 10.0), row("b", "1", 8.0)];
        let points = ["1", "8"].map(|x| Point::new("rate", x, "a", 12.0, "figure 3"));
        let svg = drawn(Style::Lines, &rows, &points.each_ref()).unwrap();
        for text in [">2<", ">8<", "#mp", "class=\"l c", " dp\"", "class=\"e\""] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert!(!svg.contains(">1.5<"));
    }

    #[test]
    fn one_that_hides_another_makes_the_axis_logarithmic() {
        let rows = [row("a", "1", 1.0), row("a", "2", 2.0), row("b", "1", 90.0)];
        assert!(drawn(Style::Lines, &rows, &[]).unwrap().contains(">10<"));
        assert!(!drawn(Style::Lines, &rows[..2], &[]).unwrap().contains(">10<"));
    }

    #[test]
    fn words_make_no_line() {
        assert!(drawn(Style::Lines, &[row("a", "none", 1.0)], &[]).is_none());
    }
}

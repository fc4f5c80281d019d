//! Bars and marks that lie on lines below one another, each with its name at the left.
//!
//! Bars begin at zero. Where the largest figure would hide the smallest, the axis is
//! logarithmic and marks take the place of bars: nothing begins at zero there.

use super::looks::{Look, Looks, distinct, value};
use super::papers::Point;
use super::scale::{Kind, Scale, Tick, decimal};
use super::svg::Svg;
use crate::{Figure, Plot, Row, Style};

/// The picture of one panel, and whether it needs a key to its marks.
pub(super) struct Drawn {
    /// As SVG.
    pub svg: String,
    /// Pixels that the names at the left take.
    pub left: u32,
    /// Whether marks of several series are on one line.
    pub keyed: bool,
}

/// Draws `rows`, and beside them the `points` of a paper.
pub(super) fn draw(
    plot: &Plot,
    rows: &[&Row],
    points: &[&Point],
    looks: &Looks,
    says: &str,
) -> Drawn {
    let lines = Lines::new(plot, rows, points, looks);
    let values: Vec<f64> = lines.marks().flat_map(|mark| [mark.from, mark.to]).collect();
    let scale = Scale::over(&values, kind(plot, &values));
    let above = lines.above();
    let high = |line: &Line| line.height() + if above && !line.heading { NAMED } else { 0 };
    let height = lines.0.iter().map(high).sum::<u32>() + 2 * EDGE;
    let mut svg = Svg::new(height);
    axis(&mut svg, &scale, height, lines.0.len());
    let mut top = EDGE;
    for line in &lines.0 {
        let below = if above && !line.heading { NAMED } else { 0 };
        line.draw(&mut svg, &scale, top + below, above);
        top += line.height() + below;
    }
    let keyed = lines.0.iter().any(|line| line.marks.len() > 1);
    Drawn { svg: svg.finish(says), left: lines.left(), keyed }
}

/// The lines of a picture, from the top.
struct Lines(Vec<Line>);

/// One line: a heading, or a name and what is marked on it.
struct Line {
    name: String,
    heading: bool,
    marks: Vec<Mark>,
}

/// A figure, or what a paper says it is.
struct Mark {
    look: Look,
    paper: bool,
    value: f64,
    /// Between the quartiles, or between the bounds that a paper gives.
    from: f64,
    to: f64,
}

impl Lines {
    fn new(plot: &Plot, rows: &[&Row], points: &[&Point], looks: &Looks) -> Lines {
        let series = distinct(rows, plot.series);
        let groups = order(plot, rows);
        let ranked = matches!(plot.style, Style::Ranked | Style::RankedLog);
        let single = series.len() < 2 && points.iter().all(|point| point.series.is_empty());
        let dense = ranked || groups.len() * series.len() > DENSE;
        let mut lines = Vec::new();
        let absent = points.iter().map(|point| point.x.to_string());
        let mut all = groups.clone();
        absent.for_each(|x| {
            if !all.contains(&x) {
                all.push(x)
            }
        });
        for group in &all {
            let figure = |name: &str| {
                let is =
                    |row: &&&Row| value(row, plot.x) == *group && value(row, plot.series) == name;
                rows.iter().find(is)?.figures.get(plot.figure).copied()
            };
            let here = series.iter().filter_map(|name| Some((name, figure(name)?)));
            let here: Vec<(&String, Figure)> = here.collect();
            let theirs = points.iter().filter(|point| point.x == group);
            let like = |name: &str| match plot.x {
                // A line of its own for each engine: its colour is the engine's.
                "engine" if series.len() < 2 => Look { mark: 0, ..looks.of(group) },
                _ => looks.of(name),
            };
            let ours = |(name, figure): &(&String, Figure)| Mark::ours(like(name), *figure);
            let paper = |point: &&&Point| Mark::of_paper(like(point.series), point);
            if single || dense {
                let marks = here.iter().map(ours).chain(theirs.clone().map(|p| paper(&p)));
                lines.push(Line { name: group.clone(), heading: false, marks: marks.collect() });
                continue;
            }
            lines.push(Line { name: group.clone(), heading: true, marks: Vec::new() });
            lines.extend(here.iter().map(|one| Line {
                name: one.0.clone(),
                heading: false,
                marks: vec![ours(one)],
            }));
            lines.extend(theirs.map(|point| Line {
                name: format!("{} (paper)", point.series),
                heading: false,
                marks: vec![paper(&point)],
            }));
        }
        Lines(lines)
    }

    fn marks(&self) -> impl Iterator<Item = &Mark> {
        self.0.iter().flat_map(|line| &line.marks)
    }

    /// Room for the longest name at the left.
    fn left(&self) -> u32 {
        let letters = if self.above() { 0 } else { self.longest() };
        (letters as u32 * LETTER + 14).max(40)
    }

    /// Whether names have no room at the left: then they are above their marks.
    fn above(&self) -> bool {
        self.longest() > NAME
    }

    fn longest(&self) -> usize {
        let names = self.0.iter().filter(|line| !line.heading).map(|line| &line.name);
        names.map(|name| name.chars().count()).max().unwrap_or(0)
    }
}

impl Line {
    fn height(&self) -> u32 {
        if self.heading { HEADING } else { HEIGHT }
    }

    fn draw(&self, svg: &mut Svg, scale: &Scale, top: u32, above: bool) {
        let middle = f64::from(top + self.height() / 2);
        if self.heading {
            svg.text("h", (0.0, middle + 6.0), &self.name);
            return;
        }
        match above {
            true => svg.text("b", (0.0, f64::from(top)), &self.name),
            false => svg.text("a", (0.0, middle + 4.0), &self.name),
        }
        let alone = self.marks.iter().filter(|mark| !mark.paper).count() < 2;
        for mark in &self.marks {
            let place = |value: f64| scale.place(value).clamp(0.0, 1.0);
            let (at, from, to) = (place(mark.value), place(mark.from), place(mark.to));
            let color = mark.look.color;
            if alone && !mark.paper && scale.has_zero() {
                let zero = place(0.0);
                svg.bar(&format!("b c{color}"), zero.min(at), zero.max(at), top + 4, HEIGHT - 8);
            } else {
                svg.mark(mark.look, mark.paper, (at, middle));
            }
            if to - from > 0.001 {
                svg.line(if mark.paper { "e q" } else { "e" }, (from, middle), (to, middle));
            }
            if alone && (!mark.paper || self.marks.len() == 1) {
                svg.text("v", (to.max(at), middle + 4.0), &decimal(mark.value));
            }
        }
    }
}

impl Mark {
    fn ours(look: Look, figure: Figure) -> Mark {
        let (from, to) = figure.middle();
        Mark { look, paper: false, value: figure.median, from, to }
    }

    fn of_paper(look: Look, point: &Point) -> Mark {
        Mark { look, paper: true, value: point.middle(), from: point.value, to: point.to }
    }
}

/// From zero, unless the largest figure hides the smallest.
fn kind(plot: &Plot, values: &[f64]) -> Kind {
    let positive = values.iter().all(|value| *value > 0.0);
    match plot.style {
        Style::RankedLog if positive => Kind::Log,
        _ if positive && hides(values.iter().copied()) => Kind::Log,
        _ => Kind::FromZero,
    }
}

/// True where the smallest of `values` is next to nothing beside the largest.
pub(super) fn hides(values: impl Iterator<Item = f64>) -> bool {
    let ends = values
        .fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    ends.1 > HIDDEN * ends.0
}

fn axis(svg: &mut Svg, scale: &Scale, height: u32, lines: usize) {
    let bottom = f64::from(height);
    for Tick { at, name, minor } in scale.ticks() {
        let x = scale.place(at);
        svg.line("g", (x, 0.0), (x, bottom));
        let class = if minor { "t n" } else { "t" };
        svg.text(class, (x, bottom + 15.0), &name);
        if lines > MANY {
            svg.text(class, (x, -4.0), &name);
        }
    }
}

/// The values of `x`: in their order, or the best first, by the sum of all series.
fn order(plot: &Plot, rows: &[&Row]) -> Vec<String> {
    let mut lines = distinct(rows, plot.x);
    let sum = |line: &String| -> f64 {
        let of = rows.iter().filter(|row| value(row, plot.x) == *line);
        of.filter_map(|row| row.median(plot.figure)).sum()
    };
    let number = |line: &String| line.parse::<f64>().unwrap_or(f64::NAN);
    match plot.style {
        // Numbers have an order of their own.
        Style::Ranked | Style::RankedLog if lines.iter().all(|line| !number(line).is_nan()) => {
            lines.sort_by(|a, b| number(a).total_cmp(&number(b)));
        }
        Style::Ranked => lines.sort_by(|a, b| sum(b).total_cmp(&sum(a))),
        Style::RankedLog => lines.sort_by(|a, b| sum(a).total_cmp(&sum(b))),
        _ => {}
    }
    lines
}

/// Pixels of a line, of a name above it, of a heading, and at the ends.
const HEIGHT: u32 = 18;
const NAMED: u32 = 14;
const HEADING: u32 = 24;
const EDGE: u32 = 4;
/// Pixels of a letter, and letters of a name that has room at the left.
const LETTER: u32 = 7;
const NAME: usize = 26;
/// More bars than this are marks on a line for each group.
const DENSE: usize = 40;
/// More lines than this have ticks at the top as well.
const MANY: usize = 24;
/// A bar of so small a share of the largest cannot be read.
const HIDDEN: f64 = 25.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(x: &'static str, series: &'static str, style: Style) -> Plot {
        Plot { title: "Rate", figure: "rate", unit: "M/s", x, series, panels: &[], style }
    }

    fn row(engine: &str, traffic: &str, rate: f64) -> Row {
        let figure = Figure { median: rate, best: rate, spread: 0.1, samples: 11 };
        Row::new([("engine", engine.to_string()), ("traffic", traffic.to_string())])
            .with("rate", figure)
    }

    fn drawn(plot: &Plot, rows: &[Row], points: &[&Point]) -> Drawn {
        let rows: Vec<&Row> = rows.iter().collect();
        let looks = Looks::new(&distinct(&rows, plot.series));
        draw(plot, &rows, points, &looks, "")
    }

    #[test]
    fn the_winner_is_on_top() {
        let rows = [row("slow", "", 5.0), row("quick", "", 100.0), row("<odd>", "", 20.0)];
        for (style, names) in [
            (Style::Ranked, ["quick", "&lt;odd&gt;", "slow"]),
            (Style::RankedLog, ["slow", "&lt;odd&gt;", "quick"]),
        ] {
            let svg = drawn(&plot("engine", "family", style), &rows, &[]).svg;
            let places = names.map(|name| svg.find(&format!(">{name}<")).unwrap());
            assert!(places.is_sorted(), "{style:?}");
        }
    }

    #[test]
    fn long_names_are_above_their_marks() {
        let long = "flow-table, as deployed, a flow makes room";
        let drawn = drawn(&plot("engine", "family", Style::Bars), &[row(long, "", 3.0)], &[]);
        assert!(drawn.svg.contains(&format!("<text class=\"b\" x=\"0%\" y=\"18\">{long}<")));
        assert!(drawn.left < 60);
    }

    #[test]
    fn numbers_keep_their_order() {
        let rows = ["512", "64", "1500"].map(|size| row(size, "", size.parse().unwrap()));
        let svg = drawn(&plot("engine", "family", Style::Ranked), &rows, &[]).svg;
        let places = ["64", "512", "1500"].map(|name| svg.find(&format!(">{name}<")).unwrap());
        assert!(places.is_sorted());
    }

    #[test]
    fn groups_name_every_bar_and_the_papers_points() {
        let rows = [row("a", "random", 10.0), row("b", "random", 20.0), row("a", "zipf", 30.0)];
        let point = Point::new("rate", "random", "a", 11.0, "table 1");
        let drawn = drawn(&plot("traffic", "engine", Style::Bars), &rows, &[&point]);
        for text in [">random<", ">zipf<", ">a<", ">b<", ">a (paper)<", ">11<", "\"#mp\""] {
            assert!(drawn.svg.contains(text), "{text}: {}", drawn.svg);
        }
        assert!(drawn.svg.contains("class=\"e\"") && !drawn.keyed);
    }

    #[test]
    fn one_that_hides_the_others_makes_the_axis_logarithmic() {
        let rows = [row("a", "", 1.0), row("b", "", 20.0), row("c", "", 500.0)];
        let of = |rows: &[Row]| drawn(&plot("engine", "family", Style::Bars), rows, &[]).svg;
        assert!(of(&rows[..2]).contains("class=\"b "));
        let log = of(&rows);
        assert!(!log.contains("class=\"b ") && log.contains("<use"), "{log}");
    }
}

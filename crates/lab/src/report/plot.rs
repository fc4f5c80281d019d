//! Plots as SVG text.

use std::fmt::Display;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::marks::{color, distinct, value};
use super::ranked;
use crate::record::short;
use crate::{Error, Plot, Row, Style};

/// One picture for each panel of `plot` that has figures.
pub(super) fn draw(plot: &Plot, rows: &[Row]) -> Result<Vec<String>, Error> {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.median(plot.figure).is_some()).collect();
    let panel = |row: &Row| -> Vec<String> {
        plot.panels.iter().map(|name| row.label(name).to_string()).collect()
    };
    let mut panels: Vec<Vec<String>> = Vec::new();
    for row in &rows {
        if !panels.contains(&panel(row)) {
            panels.push(panel(row));
        }
    }
    panels
        .iter()
        .map(|names| {
            let part: Vec<&Row> = rows.iter().filter(|row| panel(row) == *names).copied().collect();
            let mut title = plot.title.to_string();
            names.iter().for_each(|name| title = format!("{title} · {name}"));
            picture(plot, &title, &part).map_err(|reason| Error::Plot { title, reason })
        })
        .collect()
}

fn picture(plot: &Plot, title: &str, rows: &[&Row]) -> Result<String, String> {
    let ranked = matches!(plot.style, Style::Ranked | Style::RankedLog);
    if ranked || (plot.style == Style::Bars && !fits(&distinct(rows, plot.x))) {
        return Ok(ranked::draw(plot, title, rows));
    }
    let series = distinct(rows, plot.series);
    let longest = series.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let side = (50 + LETTER * longest.max(plot.series.len()) as u32).min(WIDTH / 3);
    let mut svg = String::new();
    let size = (WIDTH, HEIGHT.max(110 + 20 * series.len() as u32));
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE).map_err(said)?;
        let area = area.titled(title, ("sans-serif", 18)).map_err(said)?;
        let (chart, side) = area.split_horizontally(WIDTH - side);
        match plot.style {
            Style::Bars => bars(&chart, plot, rows, &series)?,
            _ => lines(&chart, plot, rows, &series)?,
        }
        legend(&side, plot, &series)?;
        area.present().map_err(said)?;
    }
    Ok(svg)
}

/// True when these names have room beside each other under an axis.
fn fits(names: &[String]) -> bool {
    let letters: usize = names.iter().map(|name| name.chars().count() + 2).sum();
    letters as u32 * LETTER < WIDTH * 3 / 4
}

/// What each colour means, beside the chart.
fn legend(side: &Area<'_>, plot: &Plot, series: &[String]) -> Result<(), String> {
    let text = |words: &str, x: i32, y: i32, style: &TextStyle<'_>| {
        side.draw(&Text::new(words.to_string(), (x, y - 6), style.clone())).map_err(said)
    };
    let plain = ("sans-serif", 12).into_font().color(&BLACK);
    let grey = ("sans-serif", 12).into_font().color(&RGBColor(85, 85, 85));
    text(&words(plot.series), 4, 20, &grey)?;
    for (s, name) in series.iter().enumerate() {
        let y = 40 + 18 * s as i32;
        let mark = Rectangle::new([(4, y - 5), (14, y + 5)], color(s).filled());
        side.draw(&mark).map_err(said)?;
        text(name, 20, y, &plain)?;
    }
    Ok(())
}

/// A label's name as words.
fn words(label: &str) -> String {
    label.replace('_', " ").replace('+', ", ")
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn bars(area: &Area<'_>, plot: &Plot, rows: &[&Row], series: &[String]) -> Result<(), String> {
    let groups = distinct(rows, plot.x);
    let width = 0.8 / series.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .margin_right(20)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(-0.5..groups.len() as f64 - 0.5, 0.0..ceiling(rows, plot))
        .map_err(said)?;
    // A label stands where a group's middle is; between groups there is none.
    let name = |x: &f64| {
        let near = (x - x.round()).abs() < 0.01 && *x > -0.5;
        let group = near.then(|| groups.get(x.round() as usize)).flatten();
        group.cloned().unwrap_or_default()
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(groups.len() * 2 + 1)
        .x_label_formatter(&name)
        .label_style(("sans-serif", 12))
        .x_desc(words(plot.x))
        .y_desc(plot.unit)
        .y_label_formatter(&|y| short(*y))
        .light_line_style(WHITE)
        .draw()
        .map_err(said)?;
    for (s, name) in series.iter().enumerate() {
        let color = color(s);
        let bar = |(x, y): (f64, f64)| {
            let left = x - 0.4 + s as f64 * width;
            Rectangle::new([(left, 0.0), (left + width * 0.92, y)], color.filled())
        };
        let points = groups.iter().enumerate().filter_map(|(x, group)| {
            let is = |row: &&&Row| row.label(plot.x) == group && value(row, plot.series) == *name;
            let row = rows.iter().find(is)?;
            Some((x as f64, row.median(plot.figure)?))
        });
        chart.draw_series(points.map(bar)).map_err(said)?;
    }
    Ok(())
}

fn lines(area: &Area<'_>, plot: &Plot, rows: &[&Row], series: &[String]) -> Result<(), String> {
    let number = |row: &Row| row.label(plot.x).parse::<f64>().ok();
    let log_x = matches!(plot.style, Style::LogLines | Style::LogLog);
    let log_y = matches!(plot.style, Style::LogY | Style::LogLog);
    let place = |x: f64| if log_x { x.max(1e-9).log2() } else { x };
    let height = |y: f64| if log_y { y.max(1e-9).log10() } else { y };
    let places: Vec<f64> = rows.iter().filter_map(|row| number(row)).map(place).collect();
    let low = places.iter().copied().fold(f64::INFINITY, f64::min);
    let high = places.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if places.is_empty() {
        return Err(format!("label `{}` holds no numbers", plot.x));
    }
    let edge = ((high - low) * 0.02).max(0.1);
    let heights = rows.iter().filter_map(|row| row.median(plot.figure)).map(height);
    let bottom = if log_y { heights.fold(f64::INFINITY, f64::min).floor() } else { 0.0 };
    let top = if log_y { height(ceiling(rows, plot)).ceil() } else { ceiling(rows, plot) };
    let mut chart = ChartBuilder::on(area)
        .margin_right(20)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(low - edge..high + edge, bottom..top)
        .map_err(said)?;
    let name = |x: &f64| if log_x { rounded(x.exp2()) } else { short(*x) };
    let level = |y: &f64| short(if log_y { 10_f64.powf(*y) } else { *y });
    chart
        .configure_mesh()
        .x_label_formatter(&name)
        .label_style(("sans-serif", 12))
        .x_desc(words(plot.x))
        .y_desc(plot.unit)
        .y_label_formatter(&level)
        .light_line_style(WHITE)
        .draw()
        .map_err(said)?;
    for (s, name) in series.iter().enumerate() {
        let color = color(s);
        let of = rows.iter().filter(|row| value(row, plot.series) == *name);
        let point = |row: &&Row| Some((place(number(row)?), height(row.median(plot.figure)?)));
        let mut points: Vec<(f64, f64)> = of.filter_map(point).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let dots = points.iter().map(|&point| Circle::new(point, 3, color.filled()));
        chart.draw_series(dots).map_err(said)?;
        let line = LineSeries::new(points, color.stroke_width(2));
        chart.draw_series(line).map_err(said)?;
    }
    Ok(())
}

fn ceiling(rows: &[&Row], plot: &Plot) -> f64 {
    let most = rows.iter().filter_map(|row| row.median(plot.figure)).fold(0.0, f64::max);
    if most > 0.0 { most * 1.15 } else { 1.0 }
}

/// `4096` as `4 Ki`, and what is no multiple of that as it is read best.
fn rounded(x: f64) -> String {
    if x.log2().fract().abs() < 1e-6 { binary(x) } else { decimal(x) }
}

/// `4100` as `4.1 k`.
fn decimal(x: f64) -> String {
    let power = (x.max(1.0).log10() / 3.0).floor().min(4.0);
    let unit = ["", " k", " M", " G", " T"][power as usize];
    let digits = x / 10_f64.powf(power * 3.0);
    format!("{}{unit}", short((digits * 10.0).round() / 10.0))
}

/// `4096` as `4 Ki`.
fn binary(x: f64) -> String {
    let power = (x.max(1.0).log2() / 10.0).floor().min(4.0);
    let unit = ["", " Ki", " Mi", " Gi", " Ti"][power as usize];
    format!("{}{unit}", short(x / (power * 10.0).exp2()))
}

fn said(error: impl Display) -> String {
    error.to_string()
}

const WIDTH: u32 = 920;
/// What a letter takes at most.
const LETTER: u32 = 7;
const HEIGHT: u32 = 360;

#[cfg(test)]
mod tests {
    use super::*;

    const PLOT: Plot = Plot {
        title: "Rate",
        figure: "rate_mlps",
        unit: "M/s",
        x: "traffic",
        series: "engine",
        panels: &["table"],
        style: Style::Bars,
    };

    #[test]
    fn one_picture_a_panel_with_every_series_in_it() {
        let mut rows = Vec::new();
        for (table, traffic, engine) in
            [("t1", "random", "a"), ("t1", "zipf", "a"), ("t1", "random", "b"), ("t2", "zipf", "b")]
        {
            let labels = [("table", table), ("traffic", traffic), ("engine", engine)];
            rows.push(Row::new(labels.map(|(k, v)| (k, v.to_string()))).with("rate_mlps", 5.0));
        }
        let pictures = draw(&PLOT, &rows).unwrap();
        assert_eq!(pictures.len(), 2);
        for text in ["Rate · t1", "random", "zipf", "M/s"] {
            assert!(pictures[0].contains(text), "{text}");
        }
    }

    #[test]
    fn sizes_in_binary_units() {
        assert_eq!(binary(4096.0), "4 Ki");
        assert_eq!(binary(1.0), "1");
        assert_eq!(binary(f64::from(1 << 30)), "1 Gi");
    }
}

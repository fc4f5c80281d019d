//! The pictures of an experiment: one for each panel of each plot, with what it is made by.

use std::fmt::Write;

use super::looks::{Looks, distinct, value};
use super::papers::{self, Measured, Point};
use super::svg::escape;
use super::{lines, rows};
use crate::{Plot, Row, Style};

/// The pictures of `plot`, of the rows that have its figure.
pub(super) fn draw(plot: &Plot, experiment: &str, command: &str, rows: &[Row]) -> String {
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
    let looks = Looks::new(&distinct(&rows, plot.series));
    let points = papers::measured(experiment).map_or(&[][..], |Measured { points, .. }| points);
    let of = |names: &Vec<String>| {
        let here: Vec<&Row> = rows.iter().filter(|row| panel(row) == *names).copied().collect();
        let on = |point: &&Point| point.panel.is_empty() || names.iter().any(|n| n == point.panel);
        let points: Vec<&Point> =
            points.iter().filter(|point| point.figure == plot.figure).filter(on).collect();
        figure(plot, names, &here, &points, &looks, command)
    };
    panels.iter().map(of).collect()
}

fn figure(
    plot: &Plot,
    panel: &[String],
    rows: &[&Row],
    points: &[&Point],
    looks: &Looks,
    command: &str,
) -> String {
    let says = format!("{}, {} by {}", plot.title, plot.unit, words(plot.x));
    let ranked = matches!(plot.style, Style::Bars | Style::Ranked | Style::RankedLog);
    let line = (!ranked).then(|| lines::draw(plot, rows, points, looks, &says)).flatten();
    let (svg, left, keyed, below) = match line {
        Some(svg) => (svg, 52, true, words(plot.x)),
        None => {
            let drawn = rows::draw(plot, rows, points, looks, &says);
            (drawn.svg, drawn.left, drawn.keyed, plot.unit.to_string())
        }
    };
    let mut text = String::from("<figure><h4>");
    text.push_str(&escape(plot.title));
    for name in panel.iter().filter(|name| !name.is_empty()) {
        let _ = write!(text, " <small>{}</small>", escape(name));
    }
    let unit = if below == plot.unit { String::new() } else { escape(plot.unit) };
    let _ = write!(text, "</h4><p class=\"u\">{unit}</p>");
    let series = distinct(rows, plot.series);
    if keyed && (series.iter().any(|name| !name.is_empty()) || !points.is_empty()) {
        text.push_str(&key(plot, &series, looks, !points.is_empty()));
    }
    let _ = writeln!(
        text,
        "<div class=\"box\" style=\"--l:{left}px\">{svg}<p class=\"x\">{}</p></div>\
        <figcaption><code>{}</code></figcaption></figure>",
        escape(&below),
        escape(command)
    );
    text
}

/// What each mark means.
fn key(plot: &Plot, series: &[String], looks: &Looks, paper: bool) -> String {
    let mut text = format!("<ul class=\"key\"><li class=\"dim\">{}:</li>", words(plot.series));
    for name in series.iter().filter(|name| !name.is_empty()) {
        let look = looks.of(name);
        let _ = write!(
            text,
            "<li><svg><path class=\"l c{} d{}\" d=\"M0 7H26\"/><use href=\"#m{}\" class=\"c{0}\" \
            x=\"13\" y=\"7\"/></svg>{}</li>",
            look.color,
            look.dash,
            look.mark,
            escape(&name.parse().map_or_else(|_| name.clone(), super::scale::decimal))
        );
    }
    if paper {
        text.push_str(
            "<li><svg><use href=\"#mp\" class=\"o\" x=\"13\" y=\"7\"/></svg>the paper</li>",
        );
    }
    text.push_str("</ul>");
    text
}

/// The paper's points beside ours, as a table.
pub(super) fn beside(measured: &Measured, plots: &[Plot], rows: &[Row]) -> String {
    let line = |point: &Point| {
        let plot = plots.iter().find(|plot| plot.figure == point.figure)?;
        let is = |row: &&Row| {
            let panel = plot.panels.iter().any(|name| row.label(name) == point.panel);
            value(row, plot.x) == point.x
                && (point.series.is_empty() || value(row, plot.series) == point.series)
                && (point.panel.is_empty() || panel)
        };
        let ours = rows.iter().filter(is).find_map(|row| row.median(point.figure));
        let middle = (point.value + point.to) / 2.0;
        let number = super::scale::decimal;
        let theirs = match point.value == point.to {
            true => number(point.value),
            false => format!("{} to {}", number(point.value), number(point.to)),
        };
        let ratio =
            ours.filter(|_| middle > 0.0).map(|ours| format!("{} ×", number(ours / middle)));
        let cell = |text: Option<String>| escape(&text.unwrap_or_else(|| "–".into()));
        Some(format!(
            "<tr><td>{}</td><td>{}</td><td class=\"r\">{}</td><td class=\"r\">{}</td>\
            <td class=\"r\">{}</td><td>{}</td></tr>\n",
            escape(&[plot.title, point.panel].join(" ")),
            escape([point.x, point.series].join(" ").trim()),
            escape(&theirs),
            cell(ours.map(number)),
            cell(ratio),
            escape(point.source)
        ))
    };
    let lines: String = measured.points.iter().filter_map(line).collect();
    if lines.is_empty() {
        return String::new();
    }
    format!(
        "<details><summary>The paper's points and ours: {}</summary><div class=\"wide\"><table>\
        <tr><th>figure</th><th>of</th><th>paper</th><th>here</th><th>here / paper</th>\
        <th>in the paper</th></tr>\n{lines}</table></div></details>\n",
        measured.points.len()
    )
}

/// A label's name as words.
fn words(label: &str) -> String {
    label.replace('_', " ").replace('+', ", ")
}

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

    fn row(table: &str, traffic: &str, engine: &str) -> Row {
        let labels = [("table", table), ("traffic", traffic), ("engine", engine)];
        Row::new(labels.map(|(k, v)| (k, v.to_string()))).with("rate_mlps", 5.0)
    }

    #[test]
    fn one_picture_a_panel_with_every_series_and_its_command() {
        let rows = [
            row("t1", "random", "a"),
            row("t1", "zipf", "a"),
            row("t1", "random", "b"),
            row("t2", "zipf", "b"),
        ];
        let text = draw(&PLOT, "x/y", "rutter lab run x/y --table 'a b'", &rows);
        assert_eq!(text.matches("<figure>").count(), 2);
        for part in
            ["<small>t1</small>", ">random<", ">zipf<", "M/s", "run x/y --table &#39;a b&#39;"]
        {
            assert!(text.contains(part), "{part}");
        }
    }

    #[test]
    fn a_point_of_the_paper_is_beside_ours() {
        const POINTS: &[Point] = &[Point::new("rate_mlps", "random", "a", 2.5, "table <1>")];
        let measured = Measured { experiment: "x/y", workload: "", points: POINTS };
        let text = beside(&measured, &[PLOT], &[row("t1", "random", "a")]);
        for part in ["<td class=\"r\">2.5</td>", "<td class=\"r\">5</td>", "2 ×", "table &lt;1&gt;"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        let text = beside(&measured, &[PLOT], &[]);
        assert!(text.contains("<td class=\"r\">–</td>"), "{text}");
    }
}

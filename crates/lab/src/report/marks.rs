//! What all parts of a page need: text that is no markup, labels, colours.

use std::collections::BTreeSet;

use plotters::style::RGBColor;

use crate::Row;

/// `text` as it may stand in HTML and SVG.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The values of a label in the order of first appearance.
pub(super) fn distinct(rows: &[&Row], label: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let names = rows.iter().map(|row| value(row, label));
    names.filter(|name| seen.insert(name.clone())).collect()
}

/// The value of a label, or the values of several joined: `engine+traffic`.
pub(super) fn value(row: &Row, label: &str) -> String {
    label.split('+').map(|name| row.label(name)).collect::<Vec<_>>().join(" ").trim().to_string()
}

/// The colour of the series numbered `i`.
pub(super) fn color(i: usize) -> RGBColor {
    // Distinguishable for most colour-blind readers (Okabe, Ito 2008), then by darkness.
    const COLORS: [(u8, u8, u8); 8] = [
        (0, 114, 178),
        (230, 159, 0),
        (0, 158, 115),
        (213, 94, 0),
        (86, 180, 233),
        (204, 121, 167),
        (100, 100, 100),
        (200, 190, 40),
    ];
    let (r, g, b) = COLORS[i % COLORS.len()];
    let darker = |c: u8| c >> (i / COLORS.len()).min(2);
    RGBColor(darker(r), darker(g), darker(b))
}

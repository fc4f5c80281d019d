//! Pictures as SVG that fits any width: places across are shares of the width, places down
//! and letters are pixels. So letters keep their size on a narrow screen.
//!
//! Lines and bars are paths in an inner box that is stretched; words and marks are not.

use std::fmt::Write;

use super::looks::Look;

/// A picture in the making.
pub(super) struct Svg {
    height: u32,
    /// Per class: the path of all its strokes or bars.
    paths: Vec<(String, String)>,
    /// Per colour: its marks.
    marks: Vec<(String, String)>,
    /// Words.
    over: String,
}

impl Svg {
    /// An empty one of so many pixels.
    pub fn new(height: u32) -> Svg {
        Svg { height, paths: Vec::new(), marks: Vec::new(), over: String::new() }
    }

    /// A stroke from one place to another; places across are from 0 to 1.
    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let path = of_class(&mut self.paths, class);
        let _ = write!(path, "M{} {}", across(from.0), down(from.1));
        let _ = match (from.0 == to.0, from.1 == to.1) {
            (true, _) => write!(path, "V{}", down(to.1)),
            (_, true) => write!(path, "H{}", across(to.0)),
            _ => write!(path, "L{} {}", across(to.0), down(to.1)),
        };
    }

    /// A line through `points`.
    pub fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        let path = of_class(&mut self.paths, class);
        for (i, (x, y)) in points.iter().enumerate() {
            let _ = write!(path, "{}{} {}", if i == 0 { "M" } else { "L" }, across(*x), down(*y));
        }
    }

    /// A bar between two places across, its upper edge at `top`.
    pub fn bar(&mut self, class: &str, from: f64, to: f64, top: u32, height: u32) {
        // What is nearly nothing can be seen.
        let to = to.max(from + 0.002);
        let path = of_class(&mut self.paths, class);
        let _ = write!(path, "M{} {top}H{}v{height}H{0}z", across(from), across(to));
    }

    /// A mark: the series', or the hollow one of a paper.
    pub fn mark(&mut self, look: Look, hollow: bool, (x, y): (f64, f64)) {
        let (mark, class) = match hollow {
            true => ("p".into(), format!("c{} o", look.color)),
            false => (look.mark.to_string(), format!("c{}", look.color)),
        };
        let marks = of_class(&mut self.marks, &class);
        let _ = write!(marks, "<use href=\"#m{mark}\" x=\"{}\" y=\"{}\"/>", percent(x), down(y));
    }

    /// Words at a place. What class they are of says how they lie to it: `t` below it, `a` at
    /// its left, `v` at its right, `h` and `b` from there on.
    pub fn text(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        let (x, y, text) = (percent(x), down(y), escape(text));
        let _ = write!(self.over, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>");
    }

    /// The picture; `says` is what it shows, for those who cannot see it.
    pub fn finish(self, says: &str) -> String {
        let height = self.height;
        let mut text = format!(
            "<svg class=\"plot\" height=\"{height}\" role=\"img\" aria-label=\"{}\">\
            <svg viewBox=\"0 0 {WIDE} {height}\" preserveAspectRatio=\"none\">",
            escape(says)
        );
        for (class, path) in &self.paths {
            let _ = write!(text, "<path class=\"{class}\" d=\"{path}\"/>");
        }
        text.push_str("</svg>");
        for (class, marks) in &self.marks {
            let _ = write!(text, "<g class=\"{class}\">{marks}</g>");
        }
        let _ = write!(text, "{}</svg>", self.over);
        text
    }
}

/// The text of this class; a new one unless there is one.
fn of_class<'t>(texts: &'t mut Vec<(String, String)>, class: &str) -> &'t mut String {
    let at = texts.iter().position(|(known, _)| known == class);
    let at = at.unwrap_or_else(|| {
        texts.push((class.into(), String::new()));
        texts.len() - 1
    });
    &mut texts[at].1
}

/// `text` as it may be in HTML and SVG.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // XML has no other controls.
            c if c.is_control() && !"\n\t".contains(c) => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// A place across in the inner box.
fn across(share: f64) -> i32 {
    (share * WIDE).round() as i32
}

/// A place across outside it.
fn percent(share: f64) -> String {
    format!("{}%", trimmed(share * 100.0))
}

fn down(y: f64) -> String {
    trimmed(y)
}

/// With one digit behind the point at most.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".into() } else { text.into() }
}

/// The width of the inner box.
const WIDE: f64 = 2000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_no_markup() {
        let mut svg = Svg::new(10);
        svg.text("a", (0.5, 1.0), "<b> & \"c\" 'd'\u{1b}");
        let text = svg.finish("x < \"y\"");
        assert!(text.contains(">&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;\u{fffd}<"), "{text}");
        assert!(text.contains("aria-label=\"x &lt; &quot;y&quot;\""), "{text}");
    }

    #[test]
    fn strokes_of_a_class_are_one_path() {
        let mut svg = Svg::new(40);
        svg.line("g", (0.0, 10.0), (1.0, 10.0));
        svg.bar("c1", 0.0, 0.25, 4, 9);
        svg.line("g", (0.5, 0.0), (0.5, 40.0));
        svg.bar("c1", 0.0, 0.0, 20, 9);
        svg.polyline("l", &[(0.0, 1.0), (0.5, 2.55), (1.0, -0.01)]);
        svg.mark(Look { color: 2, mark: 3, dash: 0 }, false, (0.3333, 7.0));
        let text = svg.finish("");
        for part in [
            "<path class=\"g\" d=\"M0 10H2000M1000 0V40\"/>",
            "<path class=\"c1\" d=\"M0 4H500v9H0zM0 20H4v9H0z\"/>",
            "<path class=\"l\" d=\"M0 1L1000 2.5L2000 0\"/>",
            "<g class=\"c2\"><use href=\"#m3\" x=\"33.3%\" y=\"7\"/></g>",
            "viewBox=\"0 0 2000 40\"",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

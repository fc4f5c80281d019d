//! Tables for people: columns as wide as their contents, numbers to the right.

use std::fmt::Write;

/// A table under construction.
pub struct Table {
    heads: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

/// To which side a column's contents are set.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

impl Table {
    /// A table with these columns; a heading that starts with `>` is of numbers.
    pub fn new(heads: &[&'static str]) -> Table {
        let head = |head: &&'static str| match head.strip_prefix('>') {
            Some(name) => (name, Align::Right),
            None => (*head, Align::Left),
        };
        Table { heads: heads.iter().map(head).collect(), rows: Vec::new() }
    }

    /// Adds a row; cells beyond the columns are left out.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut row: Vec<String> = cells.into_iter().take(self.heads.len()).collect();
        row.resize(self.heads.len(), String::new());
        self.rows.push(row);
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let width = |i: usize| {
            let cells = self.rows.iter().map(|row| row[i].chars().count());
            cells.max().unwrap_or(0).max(self.heads[i].0.chars().count())
        };
        let widths: Vec<usize> = (0..self.heads.len()).map(width).collect();
        let heads: Vec<String> = self.heads.iter().map(|(head, _)| head.to_string()).collect();
        for row in std::iter::once(&heads).chain(&self.rows) {
            let mut line = String::new();
            for (i, cell) in row.iter().enumerate() {
                let gap = if i == 0 { "" } else { "  " };
                let width = widths[i];
                match self.heads[i].1 {
                    Align::Left => write!(line, "{gap}{cell:<width$}")?,
                    Align::Right => write!(line, "{gap}{cell:>width$}")?,
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A number with separators: `1,234,567`.
pub fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Bytes in the unit that leaves one to four digits: `64.0 MiB`.
pub fn bytes(n: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", units[unit])
}

/// A share in percent.
pub fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", 100.0 * part as f64 / whole.max(1) as f64)
}

/// How many times `whole` is in `part`, to a tenth.
pub fn ratio(part: u64, whole: u64) -> String {
    if whole == 0 { "-".into() } else { format!("{:.1}", part as f64 / whole as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["port", ">packets"]);
        table.row(["p0".into(), number(1_234_567)]);
        table.row(["uplink".into(), number(7)]);
        let want = "port      packets\np0      1,234,567\nuplink          7\n";
        assert_eq!(table.to_string(), want);
    }

    #[test]
    fn numbers_and_units() {
        let numbers: Vec<_> = [0, 999, 1000, 1_000_000].map(number).to_vec();
        assert_eq!(numbers, ["0", "999", "1,000", "1,000,000"]);
        let sizes: Vec<_> = [0, 1023, 1024, 64 << 20, u64::MAX].map(bytes).to_vec();
        assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "64.0 MiB", "16777216.0 TiB"]);
        assert_eq!(percent(1, 3), "33.3 %");
        assert_eq!(percent(1, 0), "100.0 %");
    }
}

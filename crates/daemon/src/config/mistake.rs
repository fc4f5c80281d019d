//! A mistake in a configuration, and its place.

use std::fmt;
use std::ops::Range;

/// One mistake: `rutter.toml:3:7: ports.p0.mtu: expected …`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mistake {
    /// The file, as the user named it.
    pub file: String,
    /// The line, from 1; 0 where the mistake has no place.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// The expected value.
    pub text: String,
}

/// All mistakes of one file, in order.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Mistakes(pub Vec<Mistake>);

impl Mistake {
    /// A mistake at `span` of `text`.
    pub fn at(file: &str, source: &str, span: Range<usize>, text: String) -> Mistake {
        let start = source.floor_char_boundary_compat(span.start);
        let before = &source[..start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Mistake {
            file: file.into(),
            line: 1 + before.matches('\n').count(),
            column: 1 + before[line_start..].chars().filter(|c| *c != BYTE_ORDER_MARK).count(),
            text,
        }
    }
}

/// Editors do not show a byte order mark at the beginning of a file.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// `str::floor_char_boundary` came with Rust 1.91; this works with older ones.
trait FloorCharBoundary {
    fn floor_char_boundary_compat(&self, index: usize) -> usize;
}

impl FloorCharBoundary for str {
    fn floor_char_boundary_compat(&self, index: usize) -> usize {
        (0..=index.min(self.len())).rev().find(|&i| self.is_char_boundary(i)).unwrap_or(0)
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.text),
            _ => write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.text),
        }
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, mistake) in self.0.iter().enumerate() {
            let newline = if i == 0 { "" } else { "\n" };
            write!(f, "{newline}{mistake}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Mistakes {}

/// The candidate that `word` is most likely a misspelling of.
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let near = candidates.into_iter().map(|candidate| (distance(word, candidate), candidate));
    let (distance, candidate) = near.min_by_key(|(distance, _)| *distance)?;
    let longest = word.chars().count().max(candidate.chars().count());
    (distance <= 1 + longest / 4).then_some(candidate)
}

/// Edits (insert, delete, replace, swap of neighbours) between two words.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replace = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                let swap = if swapped { rows[i - 2][j - 2] + 1 } else { usize::MAX };
                replace.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(swap)
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_line_and_a_column() {
        let text = "a = 1\nä = ö\n";
        let place = |offset| {
            let mistake = Mistake::at("f", text, offset..offset, String::new());
            (mistake.line, mistake.column)
        };
        assert_eq!(place(0), (1, 1));
        assert_eq!(place(4), (1, 5));
        assert_eq!(place(6), (2, 1));
        assert_eq!(place(7), (2, 1)); // inside `ä`
        assert_eq!(place(11), (2, 5));
        assert_eq!(place(99), (3, 1));
        let marked = Mistake::at("f", "\u{feff}a = 1", 3..4, String::new());
        assert_eq!((marked.line, marked.column), (1, 1));
    }

    #[test]
    fn near_words_are_found_and_far_ones_not() {
        let words = ["addresses", "device", "mtu"];
        assert_eq!(nearest("adresses", words), Some("addresses"));
        assert_eq!(nearest("devcie", words), Some("device"));
        assert_eq!(nearest("mut", words), Some("mtu"));
        assert_eq!(nearest("colour", words), None);
        assert_eq!(distance("", "abc"), 3);
    }
}

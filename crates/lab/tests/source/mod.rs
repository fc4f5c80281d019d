//! What the tests of the layering read out of source files.
#![allow(dead_code, reason = "each test file uses a part")]

pub mod tree;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Every `.rs` file below `folder`.
pub fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.expect("a folder of the sources can be read").path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Code without comments, and without what strings and characters hold.
pub fn code(source: &str) -> String {
    let (mut code, mut rest) = (String::new(), source);
    while let Some(letter) = rest.chars().next() {
        let name_before = code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let skipped = match letter {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => block_comment(rest),
            '"' => string(rest),
            'r' | 'b' | 'c' if !name_before && is_string(rest) => prefixed_string(rest),
            '\'' => character(rest),
            _ => 0,
        };
        if skipped == 0 {
            code.push(letter);
            rest = &rest[letter.len_utf8()..];
        } else {
            // Lines stay lines.
            code.extend(rest[..skipped].matches('\n').chain([" "]));
            rest = &rest[skipped..];
        }
    }
    code
}

/// Bytes of the block comment that `text` starts with; they nest.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if text[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

/// Bytes of the string that `text` starts with, its quotes included.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            '"' if !escaped => return at + 1,
            letter => escaped = letter == '\\' && !escaped,
        }
    }
    text.len()
}

fn is_string(text: &str) -> bool {
    let text = text.trim_start_matches(['b', 'c']);
    let raw = text.strip_prefix('r').map(|raw| raw.trim_start_matches('#'));
    text.starts_with('"') || raw.is_some_and(|raw| raw.starts_with('"'))
}

/// Bytes of a string with letters before its quote: `b"…"`, `r#"…"#`.
fn prefixed_string(text: &str) -> usize {
    let quote = text.find('"').unwrap_or(text.len());
    let fence = text[..quote].matches('#').count();
    if !text[..quote].contains('r') {
        return quote + string(&text[quote..]);
    }
    let end = format!("\"{}", "#".repeat(fence));
    text[quote + 1..].find(&end).map_or(text.len(), |at| quote + 1 + at + end.len())
}

/// Bytes of the character that `text` starts with; 0 for a lifetime.
fn character(text: &str) -> usize {
    let mut letters = text.char_indices().skip(1);
    match letters.next() {
        Some((_, '\\')) => {
            letters.next(); // what is escaped, be it a quote
            letters.find(|(_, letter)| *letter == '\'').map_or(0, |(at, _)| at + 1)
        }
        Some((_, _)) => match letters.next() {
            Some((at, '\'')) => at + 1,
            _ => 0,
        },
        None => 0,
    }
}

/// `code` without the items that are compiled for tests only.
pub fn without_tests(code: &str) -> String {
    let (mut kept, mut rest) = (String::new(), code);
    while let Some(at) = TESTS.iter().filter_map(|attribute| rest.find(attribute)).min() {
        kept.push_str(&rest[..at]);
        rest = &rest[at..];
        let item = item(rest);
        kept.extend(item.matches('\n'));
        rest = &rest[item.len()..];
    }
    kept + rest
}

/// The names of the modules in files of their own that `code` declares for tests only.
pub fn test_modules(code: &str) -> BTreeSet<String> {
    let starts = TESTS.iter().flat_map(|attribute| code.match_indices(attribute));
    let items = starts.map(|(at, _)| item(&code[at..]));
    let names = items
        .filter_map(|item| Some(item.strip_suffix(';')?.rsplit_once("mod ")?.1.trim().to_owned()));
    names.collect()
}

/// The item that `code` starts with, its attributes included: to its `;`, or to the end
/// of its braces.
pub fn item(code: &str) -> &str {
    let mut depth = 0;
    for (at, letter) in code.char_indices() {
        match letter {
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => {
                depth -= 1;
                if depth == 0 && letter == '}' {
                    // `use a::{b, c};`
                    let semicolon = usize::from(code[at + 1..].starts_with(';'));
                    return &code[..at + 1 + semicolon];
                }
            }
            // A field or an arm.
            ',' if depth == 0 => return &code[..at + 1],
            ';' if depth == 0 => return &code[..at + 1],
            _ => {}
        }
        if depth < 0 {
            return &code[..at];
        }
    }
    code
}

const TESTS: [&str; 2] = ["#[cfg(test)]", "#[cfg(all(test"];

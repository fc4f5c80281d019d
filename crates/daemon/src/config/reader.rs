//! Reads typed values out of a parsed TOML file; collects every mistake with
//! its place instead of stopping at the first.

use std::cell::RefCell;
use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::mistake::{Mistake, nearest};

/// The file, and what is wrong in it so far.
pub struct Source<'s> {
    /// As given by the user.
    pub file: &'s str,
    /// Its contents.
    pub text: &'s str,
    /// In the order in which they were found.
    pub mistakes: RefCell<Vec<Mistake>>,
}

impl Source<'_> {
    /// Records a mistake, once, however often it is found.
    pub fn mistake(&self, span: Range<usize>, text: impl Display) {
        let mistake = Mistake::at(self.file, self.text, span, text.to_string());
        let mut mistakes = self.mistakes.borrow_mut();
        if mistakes.last() != Some(&mistake) {
            mistakes.push(mistake);
        }
    }
}

/// A table and its place: `ports.p0`.
#[derive(Clone, Copy)]
pub struct Table<'t> {
    source: &'t Source<'t>,
    path: &'t str,
    span: (usize, usize),
    table: &'t DeTable<'t>,
}

/// A value and its place: `ports.p0.mtu`.
#[derive(Clone)]
pub struct Value<'t> {
    source: &'t Source<'t>,
    path: String,
    span: Range<usize>,
    value: &'t DeValue<'t>,
}

impl<'t> Table<'t> {
    /// The root of a file.
    pub fn root(source: &'t Source<'t>, table: &'t DeTable<'t>) -> Self {
        Table { source, path: "", span: (0, 0), table }
    }

    /// A mistake about the table as a whole.
    pub fn mistake(&self, text: impl Display) {
        self.source.mistake(self.span.0..self.span.1, format_args!("{}: {text}", self.path));
    }

    /// Its place, for [`Table::mistake_at`].
    pub fn place(&self) -> Place {
        Place { path: self.path.to_string(), span: self.span.0..self.span.1 }
    }

    /// A mistake at a place in the same file.
    pub fn mistake_at(&self, Place { path, span }: &Place, text: impl Display) {
        self.source.mistake(span.clone(), format_args!("{path}: {text}"));
    }

    /// Reports every key that is not in `known`, with the one that was probably meant.
    pub fn only(&self, known: &[&str]) {
        for key in self.table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
            let name = key.get_ref().as_ref();
            let hint = match nearest(name, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("expected one of: {}", known.join(", ")),
            };
            let path = join(self.path, name);
            self.source.mistake(key.span(), format_args!("unknown key `{path}`: {hint}"));
        }
    }

    /// The value of `key`, if it is there.
    pub fn get(&self, key: &str) -> Option<Value<'t>> {
        let (key, value) = self.table.get_key_value(key)?;
        Some(self.value(key.get_ref(), value))
    }

    /// All values, in the order of the file.
    pub fn entries(&self) -> Vec<(&'t str, Value<'t>)> {
        let mut all: Vec<_> = self.table.iter().collect();
        all.sort_by_key(|(key, _)| key.span().start);
        let entry = |(key, value): (&'t Spanned<_>, &'t Spanned<DeValue<'t>>)| {
            let key: &std::borrow::Cow<'t, str> = key.get_ref();
            (key.as_ref(), self.value(key, value))
        };
        all.into_iter().map(entry).collect()
    }

    fn value(&self, key: &str, value: &'t Spanned<DeValue<'t>>) -> Value<'t> {
        let path = join(self.path, key);
        Value { source: self.source, path, span: value.span(), value: value.get_ref() }
    }
}

/// A place in the file, to be remembered: `ports.p0.addresses[1]`.
pub struct Place {
    path: String,
    span: Range<usize>,
}

impl<'t> Value<'t> {
    /// Its place, for [`Table::mistake_at`].
    pub fn place(&self) -> Place {
        Place { path: self.path.clone(), span: self.span.clone() }
    }

    /// Its place.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Records that something else was expected; `None` to be returned.
    pub fn expected<T>(&self, what: impl Display) -> Option<T> {
        let found = match self.value {
            DeValue::String(text) => format!("`{text}`"),
            DeValue::Integer(number) => format!("{number}"),
            DeValue::Boolean(flag) => format!("{flag}"),
            DeValue::Array(list) if list.is_empty() => "an empty list".into(),
            DeValue::Array(_) => "a list".into(),
            DeValue::Table(_) => "a table".into(),
            other => format!("a value of type {}", other.type_str()),
        };
        self.mistake(format_args!("expected {what}, found {found}"))
    }

    /// Records a mistake about it; `None` to be returned.
    pub fn mistake<T>(&self, text: impl Display) -> Option<T> {
        self.source.mistake(self.span(), format_args!("{}: {text}", self.path));
        None
    }

    /// As a table; its path lives as long as the value.
    pub fn table(&'t self) -> Option<Table<'t>> {
        let Some(table) = self.value.as_table() else { return self.expected("a table") };
        let span = (self.span.start, self.span.end);
        Some(Table { source: self.source, path: &self.path, span, table })
    }

    /// True for a table.
    pub fn is_table(&self) -> bool {
        self.value.is_table()
    }

    /// True for a list.
    pub fn is_list(&self) -> bool {
        self.value.is_array()
    }

    /// As text.
    pub fn text(&self) -> Option<&'t str> {
        self.value.as_str()
    }

    /// As a list; its elements are named `path[0]`, `path[1]` …
    pub fn list(&self) -> Option<Vec<Value<'t>>> {
        let Some(list) = self.value.as_array() else { return self.expected("a list") };
        let element = |(i, value): (usize, &'t Spanned<DeValue<'t>>)| Value {
            source: self.source,
            path: format!("{}[{i}]", self.path),
            span: value.span(),
            value: value.get_ref(),
        };
        Some(list.iter().enumerate().map(element).collect())
    }

    /// As a whole number in `range`.
    pub fn number(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let number = self.value.as_integer();
        let number = number.and_then(|n| u64::from_str_radix(n.as_str(), n.radix()).ok());
        match number.filter(|number| range.contains(number)) {
            Some(number) => Some(number),
            None => {
                let (low, high) = (range.start(), range.end());
                self.expected(format_args!("a whole number from {low} to {high}"))
            }
        }
    }

    /// As true or false.
    pub fn flag(&self) -> Option<bool> {
        self.value.as_bool().or_else(|| self.expected("true or false"))
    }

    /// As true or false, where the caller takes `other`, too.
    pub fn flag_or(&self, other: &str) -> Option<bool> {
        self.value.as_bool().or_else(|| self.expected(format_args!("true, false or {other}")))
    }

    /// As one of `words`.
    pub fn word<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let text = self.text();
        let found = words.iter().find(|(word, _)| Some(*word) == text);
        found.map(|(_, value)| *value).or_else(|| {
            let quoted = words.iter().map(|(word, _)| format!("\"{word}\""));
            self.expected(format_args!("one of {}", quoted.collect::<Vec<_>>().join(", ")))
        })
    }

    /// As text in the form of `T`.
    pub fn parse<T: FromStr>(&self, what: &str) -> Option<T> {
        let parsed = self.text().and_then(|text| text.parse().ok());
        parsed.or_else(|| self.expected(what))
    }

    /// Any scalar as the text that an engine's option takes.
    pub fn option(&self) -> Option<String> {
        match self.value {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Integer(number) => Some(number.as_str().to_string()),
            DeValue::Float(number) => Some(number.as_str().to_string()),
            DeValue::Boolean(flag) => Some(flag.to_string()),
            _ => self.expected("a number, a text, true or false"),
        }
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_string() } else { format!("{path}.{key}") }
}

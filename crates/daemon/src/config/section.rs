//! What declares a table of the configuration and its keys, once: the reader, its
//! messages, `rutter config example` and the manual page take all from it.

use super::reader::{Table, Value};

/// The keys of one part of the program, or of an application, in the file.
#[derive(Clone, Copy)]
pub struct Declared {
    /// Its tables, in the order of the example.
    pub sections: &'static [Section],
    /// Tables of tables whose entries carry layer-3 interfaces, as `ports` do.
    pub carriers: &'static [&'static str],
    /// Reads them; reports what is wrong, and puts the rest into the configuration.
    pub read: fn(Table<'_>, &mut super::Config),
}

/// A table of the file.
#[derive(Clone, Copy)]
pub struct Section {
    /// As written in messages; `NAME`, `TAGS` are the user's choice.
    pub path: &'static str,
    /// Its heading in the example.
    pub heading: &'static str,
    /// The table's meaning.
    pub help: &'static str,
    /// Written as comments in the example: not there unless the user wants it.
    pub optional: bool,
    /// Its keys.
    pub keys: &'static [Key],
    /// The text that follows it in the example.
    pub more: Option<fn() -> String>,
}

/// One key.
#[derive(Clone, Copy)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// TOML; `None` where it has to be given, or there is none.
    pub default: Option<&'static str>,
    /// TOML.
    pub example: &'static str,
    /// The key's effect.
    pub help: &'static str,
    /// The kind of its values.
    pub check: Check,
}

/// The values of a key.
#[derive(Clone, Copy)]
pub enum Check {
    /// What its reader says.
    Own,
    /// True or false.
    Flag,
    /// A whole number from the first to the second.
    Number(u64, u64),
    /// One of these words.
    Word(&'static [&'static str]),
}

impl Section {
    /// A table that the example shows as it is.
    pub const fn new(
        path: &'static str,
        heading: &'static str,
        help: &'static str,
        keys: &'static [Key],
    ) -> Section {
        Section { path, heading, help, optional: false, keys, more: None }
    }

    /// A table that the example shows as comments.
    pub const fn optional(
        path: &'static str,
        heading: &'static str,
        help: &'static str,
        keys: &'static [Key],
    ) -> Section {
        Section { optional: true, ..Section::new(path, heading, help, keys) }
    }

    /// The table at the file's root that it is, or is in; empty for the root itself.
    pub fn root(&self) -> &'static str {
        self.path.split(['.', '[']).next().unwrap_or_default()
    }
}

/// Reports each key of `table` that is neither in one of `sections` nor one of `tables`.
pub fn only(table: Table<'_>, sections: &[Section], tables: &[&str]) {
    let keys = sections.iter().flat_map(|section| section.keys).map(|key| key.name);
    table.only(&keys.chain(tables.iter().copied()).collect::<Vec<_>>());
}

impl Key {
    /// A key with a default.
    pub const fn new(name: &'static str, default: &'static str, help: &'static str) -> Key {
        Key { name, default: Some(default), example: default, help, check: Check::Own }
    }

    /// A key without one.
    pub const fn like(name: &'static str, example: &'static str, help: &'static str) -> Key {
        Key { name, default: None, example, help, check: Check::Own }
    }

    /// It takes a whole number in this range.
    #[must_use]
    pub const fn number(self, least: u64, most: u64) -> Key {
        Key { check: Check::Number(least, most), ..self }
    }

    /// It takes true or false.
    #[must_use]
    pub const fn flag(self) -> Key {
        Key { check: Check::Flag, ..self }
    }

    /// It takes one of these words.
    #[must_use]
    pub const fn word(self, words: &'static [&'static str]) -> Key {
        Key { check: Check::Word(words), ..self }
    }

    /// Its example is another than its default.
    #[must_use]
    pub const fn example(self, example: &'static str) -> Key {
        Key { example, ..self }
    }

    /// Its value, if it is there.
    pub fn get<'t>(&self, table: Table<'t>) -> Option<Value<'t>> {
        table.get(self.name)
    }

    /// Its value; that it is missing is reported.
    pub fn required<'t>(&self, table: Table<'t>) -> Option<Value<'t>> {
        let value = self.get(table);
        if value.is_none() {
            table.mistake(format_args!("`{}` is missing", self.name));
        }
        value
    }

    /// The value as a number, if it is there and valid.
    pub fn given_number(&self, table: Table<'_>) -> Option<u64> {
        let Check::Number(least, most) = self.check else { return None };
        self.get(table).and_then(|value| value.number(least..=most))
    }

    /// The value as a number, or its default.
    pub fn as_number(&self, table: Table<'_>) -> u64 {
        self.given_number(table).unwrap_or_else(|| self.default_number())
    }

    /// Its default as a number; 0 where that is none.
    pub fn default_number(&self) -> u64 {
        let text = self.default.unwrap_or_default().replace('_', "");
        text.parse().unwrap_or_default()
    }

    /// The value as true or false, or its default.
    pub fn as_flag(&self, table: Table<'_>) -> bool {
        self.get(table).and_then(|value| value.flag()).unwrap_or(self.default == Some("true"))
    }

    /// As the value at the place of its word, or of its default.
    pub fn as_word<T: Copy, const N: usize>(&self, table: Table<'_>, values: [T; N]) -> T {
        self.given_word(table, values).unwrap_or_else(|| self.default_word(values))
    }

    /// The same; `None` where it is there, and none of the words.
    pub fn given_word<T: Copy, const N: usize>(
        &self,
        table: Table<'_>,
        values: [T; N],
    ) -> Option<T> {
        let Some(value) = self.get(table) else { return Some(self.default_word(values)) };
        let words: Vec<(&str, T)> = self.words().iter().copied().zip(values).collect();
        value.word(&words)
    }

    fn default_word<T: Copy, const N: usize>(&self, values: [T; N]) -> T {
        let default = self.default.unwrap_or_default().trim_matches('"');
        let at = self.words().iter().position(|word| *word == default);
        values[at.unwrap_or(0).min(N - 1)]
    }

    fn words(&self) -> &'static [&'static str] {
        match self.check {
            Check::Word(words) => words,
            _ => &[],
        }
    }
}

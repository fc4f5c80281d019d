//! Warnings of a command, beside its answer.

use std::fmt::Display;
use std::io::{Write, stderr};

/// A line on standard error. Where that is closed nobody reads it.
pub fn warn(message: impl Display) {
    let _ = writeln!(stderr(), "rutter: {}", harmless(&message.to_string()));
}

/// Says that a listing is not whole, where its own format has no place for that.
pub fn cut(what: impl Display) {
    warn(format_args!("{what} are shown (--limit N for more)"));
}

/// The text without sequences that a terminal would obey: messages quote files and input.
fn harmless(text: &str) -> String {
    let shown = |c: char| -> String {
        if c.is_control() && c != '\n' { c.escape_default().collect() } else { c.into() }
    };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_commands_no_terminal() {
        assert_eq!(harmless("a\x1b[31m\u{9b}m\rb\nc é"), "a\\u{1b}[31m\\u{9b}m\\rb\nc é");
    }
}

//! How engines read their options, and refuse what they do not know.

use core::fmt::Display;
use core::str::FromStr;

use super::{Card, Options, Refusal};
use crate::{Hop, Prefix, pages};

/// The options that an engine has: name, default, one line of help.
pub type Known = &'static [(&'static str, &'static str, &'static str)];

/// An engine as people write it: `NAME`, or `NAME:option=value,option=value`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Choice {
    /// Its name; nobody has asked whether there is one.
    pub name: String,
    /// Its options, in the same state.
    pub options: Options,
}

/// What is not of the form of a [`Choice`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadChoice {
    /// Something behind the colon that gives no option a value.
    #[error("`{0}`: expected an engine, as NAME or NAME:OPTION=VALUE,OPTION=VALUE")]
    NoValue(String),
    /// An option with two values.
    #[error("option `{0}` is given twice")]
    Twice(String),
}

impl FromStr for Choice {
    type Err = BadChoice;

    fn from_str(text: &str) -> Result<Self, BadChoice> {
        let (name, options) = text.split_once(':').unwrap_or((text, ""));
        let mut choice = Choice { name: name.into(), options: Options::default() };
        let parts = options.split(',').filter(|_| text.contains(':'));
        for part in parts {
            let bad = || BadChoice::NoValue(text.into());
            let (option, value) = part.split_once('=').ok_or_else(bad)?;
            choice.set(option, value)?;
        }
        Ok(choice)
    }
}

impl Choice {
    /// Gives an option its value.
    ///
    /// # Errors
    /// When it has one.
    pub fn set(&mut self, option: &str, value: &str) -> Result<(), BadChoice> {
        match self.options.0.insert(option.into(), value.into()) {
            None => Ok(()),
            Some(_) => Err(BadChoice::Twice(option.into())),
        }
    }
}

impl Options {
    /// The value of `name`: as given, or the card's default.
    ///
    /// # Errors
    /// When it does not parse, or `valid` says no.
    ///
    /// # Panics
    /// When the card has no such option: a mistake in the engine.
    pub fn get<T: FromStr + Display>(
        &self,
        card: &'static Card,
        name: &str,
        valid: impl Fn(&T) -> bool,
    ) -> Result<T, Refusal> {
        self.get_of(card.name, card.options, name, valid)
    }

    /// As [`Options::get`], of an engine of any kind.
    ///
    /// # Errors
    /// As [`Options::get`].
    ///
    /// # Panics
    /// As [`Options::get`].
    pub fn get_of<T: FromStr + Display>(
        &self,
        engine: &'static str,
        known: Known,
        name: &str,
        valid: impl Fn(&T) -> bool,
    ) -> Result<T, Refusal> {
        let known = known.iter().find(|(known, ..)| *known == name);
        let (_, default, help) = known.expect("an engine asks for the options of its card");
        let text = self.0.get(name).map_or(*default, String::as_str);
        let limit = || format!("option {name} = \"{text}\" ({help})");
        text.parse().ok().filter(valid).ok_or_else(|| Refusal { engine, limit: limit() })
    }

    /// Refuses names that the card does not have.
    ///
    /// # Errors
    /// The first unknown name.
    pub fn check(&self, card: &'static Card) -> Result<(), Refusal> {
        self.check_of(card.name, card.options)
    }

    /// As [`Options::check`], of an engine of any kind.
    ///
    /// # Errors
    /// The first unknown name.
    pub fn check_of(&self, engine: &'static str, known: Known) -> Result<(), Refusal> {
        let unknown = |name: &&String| !known.iter().any(|(known, ..)| known == name);
        match self.0.keys().find(unknown) {
            None => Ok(()),
            Some(name) => Err(Refusal { engine, limit: format!("there is no option {name}") }),
        }
    }
}

impl Card {
    /// A refusal by this engine.
    pub fn refuse(&self, limit: String) -> Refusal {
        Refusal { engine: self.name, limit }
    }

    /// Refuses a hop beyond the card's limit.
    ///
    /// # Errors
    /// Names both figures.
    pub fn admit_hop(&self, hop: Hop) -> Result<(), Refusal> {
        if hop.0 <= self.max_hop {
            return Ok(());
        }
        Err(self.refuse(format!("hop {} exceeds {}", hop.0, self.max_hop)))
    }

    /// Asks for memory before the engine takes `bytes` more ([`pages::admit`]).
    ///
    /// # Errors
    /// When the machine has too little.
    pub fn admit_bytes(&self, bytes: usize) -> Result<(), Refusal> {
        pages::admit(bytes).map_err(|no_room| self.refuse(no_room.to_string()))
    }

    /// Refuses a route beyond the card's limits of hop and length.
    ///
    /// # Errors
    /// Names the figure and the limit.
    pub fn admit<A: crate::Addr>(&self, prefix: &Prefix<A>, hop: Hop) -> Result<(), Refusal> {
        if prefix.len() > self.max_len {
            return Err(self.refuse(format!("{prefix} is longer than /{}", self.max_len)));
        }
        self.admit_hop(hop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_written_with_its_options() {
        let choice: Choice = "dxr:k=16,isa=avx2".parse().unwrap();
        let options = [("k", "16"), ("isa", "avx2")];
        let options = options.map(|(name, value)| (name.to_string(), value.to_string()));
        assert_eq!(choice, Choice { name: "dxr".into(), options: Options(options.into()) });
        assert_eq!("dxr".parse(), Ok(Choice { name: "dxr".into(), ..Choice::default() }));
        for bad in ["dxr:", "dxr:k", "dxr:k=1,", ":"] {
            assert_eq!(bad.parse::<Choice>(), Err(BadChoice::NoValue(bad.into())));
        }
        assert_eq!("dxr:k=1,k=2".parse::<Choice>(), Err(BadChoice::Twice("k".into())));
    }
}

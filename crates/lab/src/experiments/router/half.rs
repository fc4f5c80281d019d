//! What most experiments of the router measure at a time: one family of a table.

use std::fmt;
use std::sync::Arc;

use crate::data::Table;
use crate::{Context, Error};

/// The routes of one family of a table.
#[derive(Clone)]
pub(super) struct Half {
    /// `ipv4` or `ipv6`.
    pub(super) family: &'static str,
    /// The table's name, as `--table` has it.
    pub(super) name: String,
}

impl Half {
    /// Both halves of the tables named with `--table`; else the IPv4 half of each of
    /// `usual4` and the IPv6 half of each of `usual6`.
    pub(super) fn all(context: &Context, usual4: &[&str], usual6: &[&str]) -> Vec<Half> {
        let of = |family, usual| {
            let tables = context.tables(usual).into_iter();
            tables.map(move |name| Half { family, name })
        };
        of("ipv4", usual4).chain(of("ipv6", usual6)).collect()
    }

    /// The table, both halves of it; the record names it, with its checksum.
    pub(super) fn table(&self, context: &mut Context) -> Result<Arc<Table>, Error> {
        context.load(&self.name)
    }
}

impl fmt::Display for Half {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.family, self.name)
    }
}

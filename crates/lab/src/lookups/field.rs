//! What the measures of one part have in common.

use lookup::lpm::Intervals;
use lookup::{Hop, Prefix, Rib};

use super::{Measure, Part};
use crate::contest::{self, Contestant, Subject};
use crate::contestants::Family;
use crate::{Context, Row};

/// See the module.
pub(super) struct Field<'p, A: Family> {
    pub context: &'p Context,
    pub part: &'p Part,
    table: &'p str,
    pub routes: Vec<(Prefix<A>, Hop)>,
    pub rib: Rib<A>,
    pub flat: Intervals<A>,
}

/// A contestant that took the table.
pub(super) struct Built<A: Family> {
    pub name: String,
    /// Builds it anew.
    pub contestant: Contestant<A>,
    pub subject: Box<dyn Subject<A>>,
    /// Labels of its rows, without figures.
    pub blank: Row,
}

impl<'p, A: Family> Field<'p, A> {
    pub fn new(
        context: &'p Context,
        part: &'p Part,
        table: &'p str,
        routes: &[(Prefix<A>, Hop)],
    ) -> Self {
        let routes = contest::folded(routes.iter().copied(), context.hops());
        let rib = routes.iter().copied().collect();
        let flat = Intervals::new(routes.iter().copied());
        Field { context, part, table, routes, rib, flat }
    }

    pub fn has(&self, measure: Measure) -> bool {
        self.part.measures.contains(&measure)
    }

    /// A row of this part without figures.
    pub fn blank(&self, name: &str) -> Row {
        let prefixes = self.routes.len().to_string();
        let labels =
            [("engine", name), ("family", A::FAMILY), ("table", self.table), ("traffic", "")];
        let mut row = Row::new(labels);
        row.labels.insert("prefixes".into(), prefixes);
        for (name, value) in &self.part.labels {
            row.labels.insert((*name).to_string(), value.clone());
        }
        row
    }
}

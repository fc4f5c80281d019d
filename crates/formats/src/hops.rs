//! Names of next hops, by id.

use std::collections::HashMap;
use std::sync::Arc;

use lookup::Hop;

use crate::memory::{self, NoMemory};

/// Next-hop texts by id: dense from 1, in order of first appearance.
///
/// Some ids may have no name: where a file gives only prefixes, 255 nameless
/// ids keep neighbouring prefixes apart for the engines.
#[derive(Clone, Debug, Default)]
pub struct Hops {
    /// `names[id - 1]`.
    names: Vec<Option<Arc<str>>>,
    ids: HashMap<Arc<str>, Hop>,
}

impl Hops {
    /// The id of `name`, a new one where it is first seen; `None` when
    /// [`Hop::MAX`] names are taken.
    pub fn id(&mut self, name: &str) -> Option<Hop> {
        if let Some(&hop) = self.ids.get(name) {
            return Some(hop);
        }
        let hop = Hop::new(u32::try_from(self.names.len()).ok()?.checked_add(1)?)?;
        let name: Arc<str> = name.into();
        self.names.push(Some(Arc::clone(&name)));
        self.ids.insert(name, hop);
        Some(hop)
    }

    /// Makes room for one more name.
    pub(crate) fn grow(&mut self) -> Result<(), NoMemory> {
        memory::grow(&mut self.names)?;
        memory::grow_map(&mut self.ids)
    }

    /// Appends `n` ids without a name; returns the id before the first of them.
    pub(crate) fn add_nameless(&mut self, n: usize) -> u32 {
        let before = self.names.len() as u32;
        self.names.resize(self.names.len() + n, None);
        before
    }

    /// The name of `hop`; `None` where it has none or does not exist.
    pub fn name(&self, hop: Hop) -> Option<&str> {
        self.names.get(hop.index().checked_sub(1)?)?.as_deref()
    }

    /// The largest id.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Every id and its name, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Hop, Option<&str>)> + '_ {
        self.names.iter().zip(1..).map(|(name, id)| (Hop(id), name.as_deref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_dense_from_one_in_order_of_first_appearance() {
        let mut hops = Hops::default();
        assert_eq!(hops.id("b"), Some(Hop(1)));
        assert_eq!(hops.id("a"), Some(Hop(2)));
        assert_eq!(hops.id("b"), Some(Hop(1)));
        assert_eq!(hops.add_nameless(2), 2);
        assert_eq!(hops.id("c"), Some(Hop(5)));
        assert_eq!(hops.name(Hop(2)), Some("a"));
        assert_eq!((hops.name(Hop(0)), hops.name(Hop(3)), hops.name(Hop(6))), (None, None, None));
    }
}

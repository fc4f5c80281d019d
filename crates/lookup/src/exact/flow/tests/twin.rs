//! A table beside a plain map that must agree with it after every call.

use std::collections::HashMap;

use super::*;

/// What the map knows of a flow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Want {
    pub(super) expires: u64,
    pub(super) class: Class,
    pub(super) state: [u8; 16],
    pub(super) page: Option<Page>,
}

impl Want {
    fn of(flow: &Flow, page: Option<&Page>) -> Want {
        Want {
            expires: flow.expires(),
            class: flow.class(),
            state: flow.state,
            page: page.copied(),
        }
    }
}

pub(super) struct Twin {
    pub(super) table: Box<dyn FlowTable>,
    pub(super) map: HashMap<FlowKey, Want>,
    /// Flows that went during the last call.
    pub(super) went: Vec<(FlowKey, Want, Why)>,
}

impl Twin {
    pub(super) fn new(table: Box<dyn FlowTable>) -> Twin {
        Twin { table, map: HashMap::new(), went: Vec::new() }
    }

    /// Calls the table; what goes must be what the map has, and leaves it.
    pub(super) fn call<T>(
        &mut self,
        call: impl FnOnce(&mut dyn FlowTable, &mut OnGone<'_>) -> T,
    ) -> T {
        self.went.clear();
        let (map, went) = (&mut self.map, &mut self.went);
        let answer = call(&mut *self.table, &mut |flow, page, why| {
            let want = Want::of(flow, page);
            assert_eq!(map.remove(&flow.key()), Some(want), "{:?} {why:?}", flow.key());
            went.push((flow.key(), want, why));
        });
        assert_eq!(self.table.capacity().entries, self.map.len());
        answer
    }

    /// Finds or makes `keys`; the map learns what came.
    pub(super) fn claim(&mut self, now: u64, expires: u64, keys: &[FlowKey]) -> Vec<FlowId> {
        self.went.clear();
        let (map, went) = (&mut self.map, &mut self.went);
        let mut ids = vec![FlowId::NONE; keys.len()];
        self.table.find_or_insert_batch(now, expires, keys, &mut ids, &mut |flow, page, why| {
            assert_eq!(why, Why::Replaced);
            let want = Want::of(flow, page);
            assert_eq!(map.remove(&flow.key()), Some(want), "{:?}", flow.key());
            went.push((flow.key(), want, why));
        });
        let new = Want { expires, class: Class::Request, state: [0; 16], page: None };
        for (key, id) in keys.iter().zip(&ids) {
            assert!(!id.is_none() || !map.contains_key(key), "{key:?} is there");
            if id.is_new() {
                assert_eq!(map.insert(*key, new), None, "{key:?}");
            }
        }
        for (key, &id) in keys.iter().zip(&ids).filter(|(_, id)| !id.is_none()) {
            let (flow, page) = self.table.flow(id);
            assert_eq!((flow.key(), Some(&Want::of(flow, page))), (*key, self.map.get(key)));
        }
        ids
    }

    pub(super) fn decide(&mut self, key: &FlowKey) -> bool {
        let id = self.table.find(key);
        if id.is_none() {
            return false;
        }
        let made = self.call(|table, gone| table.decide(id, gone));
        if let Some(want) = self.map.get_mut(key).filter(|want| made && want.page.is_none()) {
            (want.class, want.page) = (Class::Spare, Some(Page([0; 64])));
        }
        made
    }

    pub(super) fn undecide(&mut self, key: &FlowKey) {
        let id = self.table.find(key);
        self.table.undecide(id);
        let want = self.map.get_mut(key).expect("it is there");
        (want.class, want.page) = (Class::Request, None);
    }

    /// Changes all that a caller may.
    pub(super) fn change(&mut self, key: &FlowKey, expires: u64, keep: bool, byte: u8) {
        let (id, want) = (self.table.find(key), self.map.get_mut(key).expect("it is there"));
        let mut view = self.table.view();
        view.set_expires(id, expires);
        view.keep(id, keep);
        let (state, page) = view.state(id);
        state[usize::from(byte) % 16] = byte;
        want.state = *state;
        if let Some(page) = page {
            page.0[usize::from(byte) % 64] = byte;
            want.page = Some(*page);
            want.class = if keep { Class::Kept } else { Class::Spare };
        }
        want.expires = expires;
    }

    /// Every flow is there as it should be, and none that should not.
    pub(super) fn agrees(&self, others: &[FlowKey]) {
        let keys: Vec<_> = self.map.keys().chain(others).copied().collect();
        let mut ids = vec![FlowId::NONE; keys.len()];
        self.table.find_batch(&keys, &mut ids);
        for (key, id) in keys.iter().zip(ids) {
            assert_eq!(self.table.find(key).is_none(), id.is_none());
            let found = (!id.is_none()).then(|| self.table.flow(id));
            let found = found.map(|(flow, page)| (flow.key(), Want::of(flow, page)));
            assert_eq!(found, self.map.get(key).map(|&want| (*key, want)), "{key:?}");
        }
        let (mut walked, mut from) = (0, Some(0));
        while let Some(at) = from {
            from = self.table.walk(at, 7000, &mut |flow, page| {
                assert_eq!(self.map.get(&flow.key()), Some(&Want::of(flow, page)));
                walked += 1;
            });
        }
        let (counts, mut flows) = (self.table.counts(), [0; 3]);
        self.map.values().for_each(|want| flows[want.class.index()] += 1);
        assert_eq!((walked, counts.flows), (self.map.len(), flows));
        assert_eq!(counts.pages, self.map.values().filter(|want| want.page.is_some()).count());
        assert_eq!(self.table.capacity().entries, self.map.len());
    }
}

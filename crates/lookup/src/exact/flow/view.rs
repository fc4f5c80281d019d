//! The flows of a table, to be read and changed without a call for each.

use super::books::Books;
use super::index::Index;
use super::{Class, Flow, FlowId, Page};

/// What [`super::FlowTable::view`] gives: the flows by their ids.
///
/// An id whose flow is gone (see [`super::FlowTable`]) reads a place without a flow, or with
/// another; changes of a place without a flow do nothing.
pub struct View<'a> {
    pub(super) flows: &'a mut [Flow],
    pub(super) books: &'a mut Books,
    pub(super) index: Option<&'a mut Index>,
}

/// A flow of a [`View`]: what may be changed of it, and what is known.
pub struct Met<'a> {
    /// [`Flow::state`].
    pub state: &'a mut [u8; 16],
    /// Its page, if it has one.
    pub page: Option<&'a mut Page>,
    /// [`Flow::expires`].
    pub expires: u64,
    /// [`Flow::is_kept`].
    pub is_kept: bool,
}

impl View<'_> {
    /// All of the flow at `id` at once; `None` where there is no such place, as of
    /// [`FlowId::NONE`].
    #[inline(always)]
    pub fn met(&mut self, id: FlowId) -> Option<Met<'_>> {
        let flow = self.flows.get_mut(id.place as usize)?;
        let (expires, is_kept) = (flow.expires(), flow.is_kept());
        let pages = &mut self.books.pages;
        let page = flow.page().and_then(|page| pages.all_mut().get_mut(page as usize));
        Some(Met { state: &mut flow.state, page, expires, is_kept })
    }

    /// The flow at `id`.
    ///
    /// # Panics
    /// When there is no such place.
    #[inline(always)]
    pub fn flow(&self, id: FlowId) -> &Flow {
        &self.flows[id.place as usize]
    }

    /// Its page, if it has one.
    ///
    /// # Panics
    /// As [`View::flow`].
    #[inline(always)]
    pub fn page(&self, id: FlowId) -> Option<&Page> {
        self.flow(id).page().map(|page| &self.books.pages.all()[page as usize])
    }

    /// Its state, and its page if it has one.
    ///
    /// # Panics
    /// As [`View::flow`].
    #[inline(always)]
    pub fn state(&mut self, id: FlowId) -> (&mut [u8; 16], Option<&mut Page>) {
        let flow = &mut self.flows[id.place as usize];
        let page = flow.page().map(|page| &mut self.books.pages.all_mut()[page as usize]);
        (&mut flow.state, page)
    }

    /// Sets when it expires.
    ///
    /// # Panics
    /// As [`View::flow`].
    #[inline(always)]
    pub fn set_expires(&mut self, id: FlowId, expires: u64) {
        let flow = &mut self.flows[id.place as usize];
        if flow.is_there() && flow.expires() != expires {
            flow.set_expires(expires);
            self.settle(id);
        }
    }

    /// Makes a decided flow [`Class::Kept`], from the first packet on that its grant carries,
    /// or [`Class::Spare`] again. A request stays one.
    ///
    /// # Panics
    /// As [`View::flow`].
    #[inline(always)]
    pub fn keep(&mut self, id: FlowId, keep: bool) {
        let flow = &mut self.flows[id.place as usize];
        let class = if keep { Class::Kept } else { Class::Spare };
        if flow.is_there() && flow.class() != class && flow.class() != Class::Request {
            self.books.changes(flow, class);
            self.settle(id);
        }
    }

    /// Both at once of a decided flow.
    ///
    /// # Panics
    /// As [`View::flow`].
    #[inline(always)]
    pub fn renew(&mut self, id: FlowId, expires: u64, keep: bool) {
        let flow = &mut self.flows[id.place as usize];
        let class = if keep { Class::Kept } else { Class::Spare };
        if !flow.is_there() || flow.class() == Class::Request {
            return;
        }
        if flow.class() != class {
            self.books.changes(flow, class);
        }
        flow.set_expires(expires);
        self.settle(id);
    }

    /// Writes beside its tag when it goes.
    #[inline(always)]
    fn settle(&mut self, id: FlowId) {
        if let Some(index) = &mut self.index {
            index.settle(id, &self.flows[id.place as usize]);
        }
    }
}

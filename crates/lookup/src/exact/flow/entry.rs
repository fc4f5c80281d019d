//! A flow's entry, and its page.

use super::FlowKey;
use crate::pages::Zeroed;

/// An entry: one cache line.
///
/// ```text
///    0             32        40         56     60
///    8 × 4 B       expires   16 B       page   link │ class │ family
///    addresses               of state   + 1     28      2       2 bits
/// ```
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Flow {
    addresses: [u32; 8],
    expires: u64,
    /// The caller's: no table reads it.
    pub state: [u8; 16],
    page: u32,
    rest: u32,
}

// SAFETY: integers, of which zero is a value, without a destructor.
unsafe impl Zeroed for Flow {}

/// More state of a decided flow, the caller's as [`Flow::state`] is: one cache line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C, align(64))]
pub struct Page(pub [u8; 64]);

// SAFETY: bytes, of which zero is a value, without a destructor.
unsafe impl Zeroed for Page {}

const _: () = assert!(size_of::<Flow>() == 64 && size_of::<Page>() == 64);

/// What a flow is to the table that has to make room.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum Class {
    /// Nothing is decided about it. It has no page.
    Request = 1,
    /// Decided, and nothing is lost with it: it was declined, or its grant never carried a
    /// packet.
    Spare = 2,
    /// Decided, and its grant has carried packets.
    Kept = 3,
}

impl Class {
    /// All, as they are listed.
    pub const ALL: [Class; 3] = [Class::Request, Class::Spare, Class::Kept];

    /// Its index in what is counted by class.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self as usize - 1
    }
}

impl Flow {
    /// Its key.
    pub fn key(&self) -> FlowKey {
        FlowKey::of(self.addresses, self.family() == V4)
    }

    /// Its class; a request's where there is no flow.
    #[inline(always)]
    pub fn class(&self) -> Class {
        CLASSES[(self.rest >> 2 & 3) as usize]
    }

    /// True of one of [`Class::Kept`].
    #[inline(always)]
    pub fn is_kept(&self) -> bool {
        self.rest & 3 << 2 == (Class::Kept as u32) << 2
    }

    /// True of one of [`Class::Request`]; false of a place without a flow.
    #[inline(always)]
    pub(super) fn is_request(&self) -> bool {
        self.rest & 3 << 2 == (Class::Request as u32) << 2
    }

    /// When [`super::FlowTable::sweep`] takes it out, on the caller's clock.
    #[inline(always)]
    pub fn expires(&self) -> u64 {
        self.expires
    }

    /// True of a flow; false of a place without one.
    #[inline(always)]
    pub fn is_there(&self) -> bool {
        self.family() == V4 || self.family() == V6
    }

    /// A request, all zero but its key.
    #[inline(always)]
    pub(super) fn new(key: &FlowKey) -> Flow {
        let (addresses, is_v4) = key.parts();
        let rest = (Class::Request as u32) << 2 | if is_v4 { V4 } else { V6 };
        Flow { addresses, expires: 0, state: [0; 16], page: 0, rest }
    }

    #[inline(always)]
    fn family(&self) -> u32 {
        self.rest & 3
    }

    /// True of the flow of `key`.
    #[inline(always)]
    pub fn is_of(&self, key: &FlowKey) -> bool {
        let pair = u64::from(self.addresses[0]) | u64::from(self.addresses[1]) << 32;
        if pair != key.pair() {
            return false;
        }
        if key.is_v4() { self.family() == V4 } else { self.family() == V6 && self.is_rest(key) }
    }

    /// The addresses, of IPv6; out of the way of a pair of IPv4, which would be copied for it.
    #[inline(never)]
    fn is_rest(&self, key: &FlowKey) -> bool {
        self.addresses == key.parts().0
    }

    /// True of a place that never had a flow, since it was cleaned.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.family() == 0
    }

    pub(super) fn clear(&mut self) {
        (self.page, self.rest) = (0, 0);
    }

    /// Leaves a place that a search has to pass.
    pub(super) fn bury(&mut self) {
        (self.page, self.rest) = (0, BURIED);
    }

    #[inline(always)]
    pub(super) fn set_expires(&mut self, expires: u64) {
        self.expires = expires;
    }

    #[inline(always)]
    pub(super) fn set_class(&mut self, class: Class) {
        self.rest = self.rest & !(3 << 2) | (class as u32) << 2;
    }

    /// The number of its page.
    #[inline(always)]
    pub(super) fn page(&self) -> Option<u32> {
        self.page.checked_sub(1)
    }

    pub(super) fn set_page(&mut self, page: Option<u32>) {
        self.page = page.map_or(0, |page| page + 1);
    }

    /// The engine's own: the next flow of a chain, or of those that are free.
    #[inline(always)]
    pub(super) fn link(&self) -> u32 {
        self.rest >> 4
    }

    pub(super) fn set_link(&mut self, link: u32) {
        self.rest = self.rest & 15 | link << 4;
    }
}

/// By the two bits of an entry: looked up, for the three arms of a match take three times as
/// many instructions.
const CLASSES: [Class; 4] = [Class::Request, Class::Request, Class::Spare, Class::Kept];

const V4: u32 = 1;
const V6: u32 = 2;
const BURIED: u32 = 3;

/// The most that a table can be asked to hold: links count from 1.
pub(super) const MAX_ENTRIES: usize = (1 << 28) - 2;

//! The memory that host and policy share: questions and decisions.
//!
//! ```text
//!   headers [BATCH] │ policies [BATCH] │ forward [BATCH] │ at │ packets [BATCH × stride]
//!                                                        (or elsewhere)  first bytes, 64 zeros
//! ```
//!
//! It is made once and stays where it is as long as the Lua state that knows its
//! addresses. A policy may write anything anywhere in it while it runs: it is read as bytes, between runs.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use super::layout;
use super::layout::{HEADERS, Headers, POLICY};
use crate::ask::Question;

/// The most questions in one call.
pub(super) const BATCH: usize = 64;

/// - S1: `base` is an allocation of `layout`, which holds all that the drawing shows, each
///   part at its offset, the headers aligned.
/// - S2: nobody keeps a reference into it while Lua runs.
/// - S3: `mark` is four aligned bytes, of this allocation or as [`Mark::new`] promises.
pub(super) struct Slots {
    base: NonNull<u8>,
    layout: Layout,
    /// Bytes of a packet that a policy sees, at most [`MOST`].
    snap: usize,
    /// Where the driver notes the slot at which the policy is.
    mark: Mark,
}

/// A word in which a policy notes the slot at which it is, for others to read.
#[derive(Clone, Copy, Debug)]
pub struct Mark(NonNull<u32>);

impl Mark {
    /// A mark in memory that others read.
    ///
    /// # Safety
    /// It is aligned, and writable as long as a policy has it; no Rust code of this process uses it
    /// but through the mark.
    pub unsafe fn new(at: NonNull<u32>) -> Self {
        Mark(at)
    }
}

impl Slots {
    /// Memory in which a policy sees `snap` bytes of a packet, at most 64 KiB. Without a `mark` the
    /// slot at which the policy is is noted here.
    pub fn new(snap: usize, mark: Option<Mark>) -> Self {
        let snap = snap.min(MOST);
        let size = PACKETS + BATCH * stride(snap);
        let layout = Layout::from_size_align(size, 64).expect("a few MiB at most");
        // SAFETY: the size is not zero.
        let base = unsafe { alloc_zeroed(layout) };
        let Some(base) = NonNull::new(base) else { handle_alloc_error(layout) };
        // SAFETY: inside the allocation (S1).
        let own = unsafe { base.add(AT) }.cast();
        Slots { base, layout, snap, mark: mark.unwrap_or(Mark(own)) }
    }

    /// Addresses of headers, policies, `forward` and `at`, for the state.
    pub fn places(&self) -> [*mut u8; 4] {
        let [headers, policies, forward] =
            [HEADERS_AT, POLICIES_AT, FORWARD_AT].map(|at| self.at(at));
        [headers, policies, forward, self.mark.0.as_ptr().cast()]
    }

    /// Writes a question into slot `i`.
    ///
    /// # Panics
    /// When there is no such slot.
    #[inline]
    pub fn put(&mut self, i: usize, question: &Question<'_>) {
        assert!(i < BATCH, "one of {BATCH} slots");
        let bytes = &question.bytes[..question.bytes.len().min(self.snap)];
        let facts = &question.facts;
        let packet = self.at(PACKETS + i * stride(self.snap));
        // SAFETY: S1: a stride has room for `snap` bytes and the padding, and is not in `bytes`,
        // which nobody could have a reference to (S2).
        unsafe { packet.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        // SAFETY: as above; `bytes.len()` is at most `snap`.
        let end = unsafe { packet.add(bytes.len()) };
        // SAFETY: as above.
        unsafe { end.write_bytes(0, PADDING) };
        let place = |offset: u16| usize::from(offset).min(bytes.len());
        // SAFETY: at most at the end of what was copied, inside the stride.
        let pointer = |offset: u16| unsafe { packet.add(place(offset)) };
        let there = bytes.len() - place(facts.l4);
        let headers = Headers {
            outer_ethertype: facts.outer_ethertype,
            inner_ip_ver: facts.inner_ethertype,
            l4_proto: facts.l4_proto,
            priority: facts.priority,
            outer_ecn: facts.outer_ecn,
            upper_len: facts.upper_len.min(u16::try_from(there).unwrap_or(u16::MAX)),
            l2_hdr: packet,
            outer_l3_hdr: pointer(facts.outer_l3),
            inner_l3_hdr: pointer(facts.inner_l3),
            l4_hdr: pointer(facts.l4),
            frag: u8::from(facts.frag),
        };
        let at = self.at(HEADERS_AT + i * HEADERS).cast::<Headers>();
        // SAFETY: S1, and `i` is below BATCH; aligned, as HEADERS is a multiple of 8.
        unsafe { at.write(headers) };
        let at = self.at(POLICIES_AT + i * POLICY).cast::<[u8; POLICY]>();
        // SAFETY: S1, and `i` is below BATCH; no Lua runs while the reference is used (S2).
        let policy = unsafe { &mut *at };
        layout::unset(facts, &bytes[place(facts.inner_l3)..], policy);
        // SAFETY: S1, and `i` is below BATCH.
        unsafe { self.at(FORWARD_AT + i).write(0) };
    }

    /// Passes the policy's answer in slot `i` to `read`: whether the packet goes on, and its
    /// decision. `read` runs no Lua.
    ///
    /// # Panics
    /// When there is no such slot.
    #[inline]
    pub fn take<R>(&self, i: usize, read: impl FnOnce(bool, &[u8; POLICY]) -> R) -> R {
        assert!(i < BATCH, "one of {BATCH} slots");
        // SAFETY: S1, and `i` is below BATCH.
        let forward = unsafe { self.at(FORWARD_AT + i).read() };
        let policy = self.at(POLICIES_AT + i * POLICY).cast::<[u8; POLICY]>();
        // SAFETY: as above; bytes may be anything, and stay as they are: no Lua runs while
        // the reference is used (S2).
        read(forward == 1, unsafe { &*policy })
    }

    /// The slot at which the policy was, as the driver wrote it.
    pub fn reached(&self) -> usize {
        // SAFETY: S3; volatile, as another process may read it.
        unsafe { self.mark.0.read_volatile() as usize }
    }

    /// The policy comes to slot `i`.
    #[inline]
    pub fn come(&mut self, i: usize) {
        // SAFETY: as above.
        unsafe { self.mark.0.write_volatile(i as u32) };
    }

    fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset < self.layout.size(), "inside");
        // SAFETY: S1; each caller's offset is that of a part, or of a slot below BATCH in it.
        unsafe { self.base.as_ptr().add(offset) }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: S1; the state that knew the addresses is gone (`Policy` drops it first).
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

/// Bytes of a packet's slot: its bytes and the padding, in whole cache lines. A power of two gets
/// one more line, so that slots do not all fall into the same sets of a cache.
const fn stride(snap: usize) -> usize {
    (snap + PADDING).next_multiple_of(64)
}

/// Zeros behind each packet: a header that begins at its end can be read.
const PADDING: usize = 64;
/// The longest packet.
const MOST: usize = 1 << 16;

const HEADERS_AT: usize = 0;
const POLICIES_AT: usize = HEADERS_AT + BATCH * HEADERS;
const FORWARD_AT: usize = POLICIES_AT + BATCH * POLICY;
const AT: usize = FORWARD_AT + BATCH;
const PACKETS: usize = (AT + 4).next_multiple_of(64);

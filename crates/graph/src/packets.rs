//! A vector's packets as one node sees them: with the lanes that it has declared.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use crate::lanes::{Bits, Lane, LaneCard, Lanes};
use crate::slots::{Column, Stored};
use crate::vector::Vector;

/// Which lanes a node has declared: every [`Node`](crate::Node) says it.
pub trait Declares {
    /// Lanes that nodes before it filled.
    const LANES: Lanes;
    /// Lanes that it fills, by edge.
    const CARRIES: &'static [Lanes];
}

/// A vector's packets with the lanes that the node `N` has declared.
#[repr(transparent)]
pub struct Packets<N> {
    vector: Vector,
    node: PhantomData<N>,
}

impl<N: Declares> Packets<N> {
    /// What the lane holds for packet `i`.
    #[inline(always)]
    pub fn get<L: Lane>(&self, _: L, i: usize) -> L::Value {
        const { assert!(touches::<N>(&L::CARD), "a lane that is not among the node's READS") }
        L::Slot::of(&self.vector.slots)[i].into()
    }

    /// Sets what the lane holds for packet `i`.
    #[inline(always)]
    pub fn set<L: Lane>(&mut self, _: L, i: usize, value: L::Value) {
        const { assert!(fills::<N>(&L::CARD), "a lane that no edge of the node carries") }
        L::Slot::of_mut(&mut self.vector.slots)[i] = value.into();
    }

    /// Sets the same for all packets.
    #[inline]
    pub fn fill<L: Lane>(&mut self, _: L, value: L::Value) {
        const { assert!(fills::<N>(&L::CARD), "a lane that no edge of the node carries") }
        let n = self.vector.n();
        L::Slot::of_mut(&mut self.vector.slots).first_mut(n).fill(value.into());
    }

    /// What the lane holds for each packet.
    #[inline]
    pub fn values<L: Lane>(&self, _: L) -> impl Iterator<Item = L::Value> {
        const { assert!(touches::<N>(&L::CARD), "a lane that is not among the node's READS") }
        L::Slot::of(&self.vector.slots).first(self.vector.n()).iter().map(|&bits| bits.into())
    }

    /// The whole lane: for lookups, which take the keys of many packets.
    #[inline(always)]
    pub fn lane<L: Lane<Value = Bits<L>>>(&self, _: L) -> &Column<L::Value> {
        const { assert!(touches::<N>(&L::CARD), "a lane that is not among the node's READS") }
        L::Slot::of(&self.vector.slots)
    }

    /// The whole lane, to be filled.
    #[inline(always)]
    pub fn lane_mut<L: Lane<Value = Bits<L>>>(&mut self, _: L) -> &mut Column<L::Value> {
        const { assert!(fills::<N>(&L::CARD), "a lane that no edge of the node carries") }
        L::Slot::of_mut(&mut self.vector.slots)
    }

    /// One whole lane to read and another to fill, of different slots: keys, and what a
    /// lookup answers. A lane whose card names another slot than its own gains nothing:
    /// ```compile_fail,E0080
    /// use graph::{Lane, LaneCard, slot};
    /// graph::lanes! {
    ///     /// Some number.
    ///     Number = "number": A32 as u32;
    /// }
    /// #[derive(Clone, Copy)]
    /// struct Liar;
    /// impl Lane for Liar {
    ///     type Slot = slot::A32;
    ///     type Value = u32;
    ///     const CARD: LaneCard = LaneCard::new::<slot::Hops>("liar", "of another slot", "liar");
    /// }
    /// graph::labels! { enum To { Out = "out" carries [Number] } }
    /// struct Both;
    /// impl graph::Node for Both {
    ///     type Edge = To;
    ///     type Drop = graph::NoDrop;
    ///     const NAME: &'static str = "both";
    ///     const HELP: &'static str = "wants one column twice";
    ///     const READS: graph::Lanes = graph::Lanes::of::<(Liar,)>();
    ///     fn process(&mut self, v: &mut graph::View<'_, Self>) {
    ///         v.between(Liar, Number);
    ///     }
    /// }
    /// let _: fn(&mut Both, &mut graph::View<'_, Both>) = <Both as graph::Node>::process;
    /// ```
    #[inline(always)]
    pub fn between<A, B>(&mut self, _: A, _: B) -> (&Column<A::Value>, &mut Column<B::Value>)
    where
        A: Lane<Value = Bits<A>>,
        B: Lane<Value = Bits<B>>,
    {
        const { assert!(touches::<N>(&A::CARD), "a lane that is not among the node's READS") }
        const { assert!(fills::<N>(&B::CARD), "a lane that no edge of the node carries") }
        // By the slots themselves: a card is what whoever declares the lane says of it.
        const { assert!(!A::Slot::BIT.has(B::Slot::BIT), "both lanes are in one slot") }
        let slots = &raw mut self.vector.slots;
        // SAFETY:
        // - `slots` is valid: it comes from a reference.
        // - That is borrowed as long as what this returns, so there is no other.
        let from = unsafe { A::Slot::at(slots) };
        // SAFETY: as above.
        let to = unsafe { B::Slot::at(slots) };
        // SAFETY: valid, and another field than `to`: the slots differ (asserted above).
        let from = unsafe { &*from };
        // SAFETY: as above.
        (from, unsafe { &mut *to })
    }

    /// Packets in their places and what the lane holds for each.
    pub(crate) fn packets_and<L: Lane>(
        &mut self,
        _: L,
    ) -> impl Iterator<Item = (&mut Option<io::Owned>, L::Value)> {
        const { assert!(touches::<N>(&L::CARD), "a lane that is not among the node's READS") }
        let Vector { burst, slots, .. } = &mut self.vector;
        let values = L::Slot::of(slots).first(io::VECTOR);
        burst.packets().iter_mut().zip(values.iter().map(|&bits| bits.into()))
    }
}

impl<N> Packets<N> {
    pub(crate) fn of(vector: &mut Vector) -> &mut Packets<N> {
        let vector: *mut Vector = vector;
        // SAFETY: the layout is the same (`repr(transparent)`, and `PhantomData` is
        // nothing), and the reference that came is not used again.
        unsafe { &mut *vector.cast() }
    }
}

impl<N> Deref for Packets<N> {
    type Target = Vector;
    #[inline(always)]
    fn deref(&self) -> &Vector {
        &self.vector
    }
}

impl<N> DerefMut for Packets<N> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Vector {
        &mut self.vector
    }
}

const fn fills<N: Declares>(lane: &LaneCard) -> bool {
    let (edges, mut i) = (N::CARRIES, 0);
    while i < edges.len() {
        if edges[i].has(lane) {
            return true;
        }
        i += 1;
    }
    false
}

const fn touches<N: Declares>(lane: &LaneCard) -> bool {
    N::LANES.has(lane) || fills::<N>(lane)
}

//! The memory of a vector for its nodes' results about its packets.
//!
//! ```text
//!  beside the packets, on the path of IPv4        in a box of their own
//!  ┌──────┬──────┬──────┬────────┐                ┌──────┬──────┬───────┬───────────────────────────┐
//!  │ A32  │ Hops │ A16  │ Ifaces │  Wide ───────► │ Keys │ A128 │ spare │ B32   C32   B16   A64     │
//!  └──────┴──────┴──────┴────────┘                └──────┴──────┴───────┴───────────────────────────┘
//!  each slot one column: a value of its width for each of the vector's packets
//! ```
//!
//! A slot is memory only. The [lane](crate::Lane) that a node filled last defines its
//! content. Slots off the path of IPv4 are in a box, so that they do not thin out the
//! others in the cache. The spare slots are for applications.

use std::ops::{Index, IndexMut, Range};

use io::VECTOR;
use lookup::Hop;
use lookup::exact::Key;

/// One value a packet. An index is taken modulo [`VECTOR`], so it is never out
/// of bounds and costs no branch.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Column<T>([T; VECTOR]);

impl<T: Copy> Column<T> {
    /// A column of equal values.
    pub fn filled(value: T) -> Self {
        Column([value; VECTOR])
    }

    /// The values of the first `n` packets.
    ///
    /// # Panics
    /// When `n` exceeds [`VECTOR`].
    #[inline]
    pub fn first(&self, n: usize) -> &[T] {
        &self.0[..n]
    }

    /// The values of the first `n` packets, to be changed.
    ///
    /// # Panics
    /// When `n` exceeds [`VECTOR`].
    #[inline]
    pub fn first_mut(&mut self, n: usize) -> &mut [T] {
        &mut self.0[..n]
    }

    pub(crate) fn shift(&mut self, from: Range<usize>, to: usize) {
        self.0.copy_within(from, to);
    }

    pub(crate) fn copy(&mut self, to: usize, other: &Self, from: Range<usize>) {
        self.0[to..to + from.len()].copy_from_slice(&other.0[from]);
    }
}

impl<T> Index<usize> for Column<T> {
    type Output = T;
    #[inline(always)]
    fn index(&self, i: usize) -> &T {
        &self.0[i % VECTOR]
    }
}

impl<T> IndexMut<usize> for Column<T> {
    #[inline(always)]
    fn index_mut(&mut self, i: usize) -> &mut T {
        &mut self.0[i % VECTOR]
    }
}

/// A column of a vector's memory, by its width: a type without values.
pub trait Slot: 'static {
    /// What it holds for a packet.
    type Bits: Copy;
}

/// How the graph reaches a slot. Nobody else can name this trait, so all slots are here.
pub trait Stored: Slot {
    /// Its bit in a [`SlotSet`].
    const BIT: SlotSet;
    /// The column.
    fn of(slots: &Slots) -> &Column<Self::Bits>;
    /// The column, to be changed.
    fn of_mut(slots: &mut Slots) -> &mut Column<Self::Bits>;
    /// Where the column is: for each slot another field.
    ///
    /// # Safety
    /// `slots` is valid, and nobody has a reference to the slots as a whole.
    unsafe fn at(slots: *mut Slots) -> *mut Column<Self::Bits>;
}

/// Slots, as bits.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SlotSet(u16);

impl SlotSet {
    pub(crate) const NONE: SlotSet = SlotSet(0);
    #[cfg(debug_assertions)]
    pub(crate) const ALL: SlotSet = SlotSet(u16::MAX);

    pub(crate) const fn and(self, other: SlotSet) -> SlotSet {
        SlotSet(self.0 | other.0)
    }

    pub(crate) const fn without(self, other: SlotSet) -> SlotSet {
        SlotSet(self.0 & !other.0)
    }

    pub(crate) const fn both(self, other: SlotSet) -> SlotSet {
        SlotSet(self.0 & other.0)
    }

    /// True where some of `other` are in it.
    #[inline]
    pub(crate) const fn has(self, other: SlotSet) -> bool {
        self.0 & other.0 != 0
    }

    /// The place of a single slot.
    pub(crate) const fn index(self) -> usize {
        self.0.trailing_zeros() as usize
    }
}

/// Most slots.
pub(crate) const SLOTS: usize = u16::BITS as usize;

/// All slots of a vector.
#[derive(Clone)]
#[repr(C)]
pub struct Slots {
    a32: Column<u32>,
    pub(crate) hops: Column<Hop>,
    a16: Column<u16>,
    pub(crate) ifaces: Column<u16>,
    wide: Box<Wide>,
}

/// Those off the path of IPv4.
#[derive(Clone)]
#[repr(C)]
struct Wide {
    keys: Column<Key>,
    a128: Column<u128>,
    b32: Column<u32>,
    c32: Column<u32>,
    b16: Column<u16>,
    a64: Column<u64>,
}

/// One line a slot: its number, its name, what it holds, its field.
macro_rules! slots {
    ($($(#[$doc:meta])+ $bit:literal $slot:ident: $bits:ty = $($field:ident).+;)+) => {
        $(
            $(#[$doc])+
            pub enum $slot {}

            impl Slot for $slot {
                type Bits = $bits;
            }

            impl Stored for $slot {
                const BIT: SlotSet = SlotSet(1 << $bit);

                #[inline(always)]
                fn of(slots: &Slots) -> &Column<$bits> {
                    &slots.$($field).+
                }

                #[inline(always)]
                fn of_mut(slots: &mut Slots) -> &mut Column<$bits> {
                    &mut slots.$($field).+
                }

                #[inline(always)]
                unsafe fn at(slots: *mut Slots) -> *mut Column<$bits> {
                    // SAFETY: `slots` is valid, as the caller says; the box is, too.
                    unsafe { &raw mut (*slots).$($field).+ }
                }
            }
        )+

        impl Slots {
            /// Moves the values of `live` from `from` to `to`.
            pub(crate) fn shift(&mut self, from: Range<usize>, to: usize, live: SlotSet) {
                $(if live.has($slot::BIT) {
                    self.$($field).+.shift(from.clone(), to);
                })+
            }

            /// Writes the values `from` of `other`'s `live` from `to` on.
            pub(crate) fn copy(
                &mut self,
                to: usize,
                other: &Self,
                from: Range<usize>,
                live: SlotSet,
            ) {
                $(if live.has($slot::BIT) {
                    self.$($field).+.copy(to, &other.$($field).+, from.clone());
                })+
            }

            /// Overwrites the values `range` of `dead` with poison.
            #[cfg(debug_assertions)]
            pub(crate) fn spoil(&mut self, range: Range<usize>, dead: SlotSet) {
                $(if dead.has($slot::BIT) {
                    self.$($field).+.0[range.clone()].fill(crate::poison::Poison::POISON);
                })+
            }
        }
    };
}

slots! {
    /// 32 bits, on the path of IPv4.
    0 A32: u32 = a32;
    /// What a lookup answers. A trace shows it after the nodes that fill it.
    1 Hops: Hop = hops;
    /// 16 bits, on the path of IPv4.
    2 A16: u16 = a16;
    /// An interface by number. Captures and traces show it, so it moves with its
    /// packet even where no node reads it.
    3 Ifaces: u16 = ifaces;
    /// Keys of exact matches.
    4 Keys: Key = wide.keys;
    /// 128 bits.
    5 A128: u128 = wide.a128;
    /// 32 bits, for applications.
    6 B32: u32 = wide.b32;
    /// 32 bits, for applications.
    7 C32: u32 = wide.c32;
    /// 16 bits, for applications.
    8 B16: u16 = wide.b16;
    /// 64 bits, for applications.
    9 A64: u64 = wide.a64;
}

impl Slots {
    pub(crate) fn new() -> Slots {
        Slots {
            a32: Column::filled(0),
            hops: Column::filled(Hop::NONE),
            a16: Column::filled(0),
            ifaces: Column::filled(0),
            wide: Box::new(Wide {
                keys: Column::filled(Key::new(0, 0)),
                a128: Column::filled(0),
                b32: Column::filled(0),
                c32: Column::filled(0),
                b16: Column::filled(0),
                a64: Column::filled(0),
            }),
        }
    }
}

//! What a lookup answers.

/// Where a packet goes next: an index into a table of the caller's, or
/// [`Hop::NONE`] where no route covers the address.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(transparent)]
pub struct Hop(pub u32);

impl Hop {
    /// No route covers the address.
    pub const NONE: Hop = Hop(0);
    /// The largest id that any engine takes; engines that store fewer bits say
    /// so in their card and refuse a larger one.
    pub const MAX: Hop = Hop((1 << 31) - 1);

    /// `None` when `id` is 0 or above [`Hop::MAX`].
    pub const fn new(id: u32) -> Option<Hop> {
        if id == 0 || id > Hop::MAX.0 { None } else { Some(Hop(id)) }
    }

    /// True for [`Hop::NONE`].
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The id as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

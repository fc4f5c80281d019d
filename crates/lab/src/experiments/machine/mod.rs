//! What the machine itself can do: bounds for everything else.

pub(super) mod limits;

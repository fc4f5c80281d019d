//! The Grantor.

experiments! {
    mod forward: Forward,
    mod flood: Flood,
}

pub(super) use forward::fixed;

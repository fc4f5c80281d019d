//! The Grantor.

experiments! {
    mod forward: Forward,
}

pub(super) use forward::fixed;

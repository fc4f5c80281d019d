//! The Grantor.

experiments! {
    mod forward: Forward,
}

//! A Grantor's worker.

experiments! {
    mod forward: Forward,
}

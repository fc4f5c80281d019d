//! What the machine itself can do: bounds for everything else.

experiments! {
    mod limits: Limits,
}

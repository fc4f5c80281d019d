//! The switch: forwarding.

experiments! {
    mod forward: Forward,
}

mod parts;

pub(super) use forward::{access, few};

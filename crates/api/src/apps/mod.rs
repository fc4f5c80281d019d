//! What applications are asked and what they answer: a file each, and a line in both
//! enums. (Router and switch came before this door: what their files declare is read as
//! variants of [`crate::Request`] and [`crate::Reply`] themselves, as old clients send it.)

pub mod gatekeeper;
pub mod grantor;
pub mod router;
pub mod span;
pub mod switch;

use serde::{Deserialize, Serialize};

/// To one application.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[rustfmt::skip]
#[allow(missing_docs)]
pub enum Request {
    Gatekeeper(gatekeeper::Request),
    Grantor(grantor::Request),
    Span(span::Request),
}

/// From one application.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[rustfmt::skip]
#[allow(missing_docs)]
pub enum Reply {
    Gatekeeper(gatekeeper::Reply),
    Grantor(grantor::Reply),
    Span(span::Reply),
}

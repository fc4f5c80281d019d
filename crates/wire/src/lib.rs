//! Protocol headers: offsets, checked views, values, checksums. No allocation.
#![forbid(unsafe_code)]

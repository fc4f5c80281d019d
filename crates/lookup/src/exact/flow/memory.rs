//! Memory of a table, there before it serves.

use crate::exact::{Card, Refused};
use crate::lpm::Refusal;
use crate::pages::{Kind, Pages, Zeroed};

/// `len` zeros, if memory allows them; touched, for their one thread serves packets with them.
pub(super) fn zeroed<T: Zeroed>(card: &'static Card, len: usize) -> Result<Pages<T>, Refusal> {
    let bytes = len * size_of::<T>();
    let no_memory = || card.refuse(Refused::Memory { bytes });
    let mut pages = Pages::admitted(Kind::default(), len).map_err(|_| no_memory())?;
    pages.touch_now();
    Ok(pages)
}

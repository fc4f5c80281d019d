//! What a prefix owns: the questions to the `Rib` that every engine of the family
//! asks before it writes.

use crate::{Addr, Prefix, Rib};

/// The addresses of `prefix` that no longer prefix covers, first and last of each
/// piece, ascending.
pub(super) fn gaps<A: Addr>(rib: &Rib<A>, prefix: Prefix<A>) -> impl Iterator<Item = (A, A)> {
    let mut next = Some(prefix.first());
    let mut children = rib.children(prefix);
    std::iter::from_fn(move || {
        while let Some(first) = next {
            let Some((child, _)) = children.next() else {
                next = None;
                return Some((first, prefix.last()));
            };
            next = (child.last() < prefix.last()).then(|| child.last().plus(1));
            if first < child.first() {
                return Some((first, child.first().minus(1)));
            }
        }
        None
    })
}

/// The hop of the longest prefix that covers `prefix` and has at least `least`
/// bits; 0 where there is none.
pub(super) fn owner<A: Addr>(rib: &Rib<A>, prefix: Prefix<A>, least: u8) -> u32 {
    let longest = rib.covering(prefix).next();
    longest.filter(|(owner, _)| owner.len() >= least).map_or(0, |(_, hop)| hop.0)
}

/// True where a prefix longer than `around` lies inside it.
pub(super) fn holds_longer<A: Addr>(rib: &Rib<A>, around: Prefix<A>) -> bool {
    let mut inside = rib.inside(around.first()..=around.last());
    inside.any(|(prefix, _)| prefix.len() > around.len())
}

//! Questions of our own: where the papers' claims hold, what shared caches cost, and how
//! long the slowest bursts take.

experiments! {
    mod verdicts: Verdicts,
    mod contended: Contended,
    mod tails: Tails,
}

mod antagonist;
mod stations;

//! Packets that applications hold back, as a share of all buffers.

use super::{Config, Table};
use crate::config::section::Key;

/// How many packets each worker may hold, by `key`: at most half of the buffers, and a quarter by
/// default. A waiting packet keeps its buffer, so traffic that flows needs the rest.
pub(crate) fn share_of_buffers(table: Table<'_>, key: &Key, what: &str, config: &Config) -> usize {
    let (workers, buffers) = (config.workers.len().max(1) as u64, u64::from(config.buffers));
    let Some(wanted) = key.given_number(table) else {
        return key.default_number().min(buffers / (4 * workers)).max(1) as usize;
    };
    let all = wanted * workers;
    if all > buffers / 2
        && let Some(value) = key.get(table)
    {
        let (needed, most, name) = (2 * all, buffers / (2 * workers), key.name);
        value.mistake::<()>(format_args!(
            "{what} of all workers may take {all} packet buffers, more than half of `buffers` \
             ({buffers}): set {name} = {most}, or buffers = {needed}"
        ));
    }
    wanted as usize
}

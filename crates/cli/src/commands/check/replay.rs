//! Updates from an MRT file, applied in batches.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use formats::mrt::{BestPath, Updates};
use formats::{AnyPrefix, Error as TableError, Hops};
use lookup::Hop;

use super::Checks;
use crate::error::Error;
use crate::status::Status;
use crate::table;

/// Applies the updates of `path`, of all peers or of one.
pub fn replay(
    path: &Path,
    peer: Option<IpAddr>,
    hops: &mut Hops,
    checks: &mut Checks,
) -> Result<Status, Error> {
    let spec = path.display().to_string();
    let failed = |error| Error::Table { spec: spec.clone(), error };
    let mut updates = Updates::open(path).map_err(failed)?;
    let (mut best, mut touched) = (BestPath::default(), BTreeSet::new());
    let (mut found, mut others) = (peer.is_none(), BTreeSet::new());
    let mut waiting = 0;
    for (_, event) in updates.by_ref() {
        if peer.is_some_and(|peer| event.peer().addr != peer) {
            others.insert(event.peer().addr);
            continue;
        }
        found = true;
        best.grow().map_err(|error| failed(error.into()))?;
        best.apply(&event, |prefix| {
            touched.insert(prefix);
        });
        waiting += 1;
        if waiting >= if checks.rebuilds() { REBUILT_BATCH } else { BATCH } {
            checks.apply(&changes(&best, &touched, hops))?;
            touched.clear();
            waiting = 0;
        }
    }
    checks.apply(&changes(&best, &touched, hops))?;
    if let Some(peer) = peer.filter(|_| !found) {
        let peers = others.into_iter().collect();
        return Err(failed(TableError::UnknownPeer { peer, peers }));
    }
    Ok(table::tell(&spec, updates.report()))
}

/// The best route of each touched prefix, or its deletion.
fn changes(
    best: &BestPath,
    touched: &BTreeSet<AnyPrefix>,
    hops: &mut Hops,
) -> Vec<(AnyPrefix, Option<Hop>)> {
    let mut hop = |prefix| {
        let route = best.best(prefix)?;
        hops.id(&route.next_hop.map_or("-".to_owned(), |hop| hop.to_string()))
    };
    touched.iter().map(|prefix| (*prefix, hop(prefix))).collect()
}

/// Events in a batch.
const BATCH: usize = 1024;

/// Events in a batch where each costs a new build.
const REBUILT_BATCH: usize = 32 * 1024;

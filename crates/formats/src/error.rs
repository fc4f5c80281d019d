//! Why there is no table.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use crate::internet::BadSpec;
use crate::memory::NoMemory;

/// Why there is no table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be opened.
    #[error("cannot open {path}: {error}", path = path.display())]
    Open {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// An archive holds many files.
    #[error("this is a tar archive: extract it (tar xf FILE) and name one of its files")]
    Tar,
    /// A format that is known and not read.
    #[error("this is a {format} file; tables are text, pyasn or MRT, plain or as .gz, .bz2 or .xz")]
    Foreign {
        /// Its name.
        format: &'static str,
    },
    /// `internet:…` that is malformed.
    #[error(transparent)]
    Spec(#[from] BadSpec),
    /// Updates were asked for, and this is something else.
    #[error("expected an MRT file with BGP4MP records")]
    NotMrt,
    /// There is no memory for the table.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
    /// A peer was asked for where there are none.
    #[error("only MRT files have peers to choose from")]
    NoPeers,
    /// The file does not name the peer.
    #[error("no route from peer {peer}; peers here: {}", list(peers))]
    UnknownPeer {
        /// As asked for.
        peer: IpAddr,
        /// The ones that announce routes, sorted.
        peers: Vec<IpAddr>,
    },
}

fn list(peers: &[IpAddr]) -> String {
    let shown: Vec<_> = peers.iter().take(50).map(ToString::to_string).collect();
    match peers.len() {
        0 => "none".into(),
        n if n > shown.len() => format!("{}, … ({n} in all)", shown.join(", ")),
        _ => shown.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn peers_are_listed_but_not_without_end() {
        let peers = |n: u32| (1..=n).map(|i| Ipv4Addr::from(i).into()).collect::<Vec<IpAddr>>();
        assert_eq!(list(&[]), "none");
        assert_eq!(list(&peers(2)), "0.0.0.1, 0.0.0.2");
        assert!(list(&peers(50)).ends_with(", 0.0.0.50"));
        assert!(list(&peers(51)).ends_with(", 0.0.0.50, … (51 in all)"));
    }
}

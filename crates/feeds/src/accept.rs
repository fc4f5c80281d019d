//! Why a listening socket gave no connection.

use std::io;

use rustix::io::Errno;

/// Whether a listening socket that answers `accept` with `error` never gives a
/// connection again. All else passes: a connection that was given up while it
/// waited (Linux reports the network's errors here, `accept(2)`), a want of
/// descriptors (`EMFILE`, `ENFILE`) or memory.
pub fn is_for_good(error: &io::Error) -> bool {
    // EINVAL: it does not listen any more; somebody has shut or destroyed it.
    let for_good = [Errno::BADF, Errno::INVAL, Errno::NOTSOCK, Errno::FAULT];
    Errno::from_io_error(error).is_some_and(|errno| for_good.contains(&errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_not_for_good() {
        let is = |errno: Errno| is_for_good(&io::Error::from(errno));
        assert!(is(Errno::INVAL) && is(Errno::BADF) && is(Errno::NOTSOCK));
        let pass = [
            Errno::MFILE,
            Errno::NFILE,
            Errno::NOBUFS,
            Errno::NOMEM,
            Errno::CONNABORTED,
            Errno::PROTO,
            Errno::PERM, // a firewall's
            Errno::HOSTUNREACH,
            Errno::INTR,
        ];
        assert!(!pass.into_iter().any(is));
        assert!(!is_for_good(&io::Error::other("of no number")));
    }
}

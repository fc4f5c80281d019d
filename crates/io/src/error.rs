//! Why a device could not be opened, started or changed, or a pool made.

/// Why a device could not be opened, started or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The description in the configuration is not understood.
    #[error("device `{device}`: {reason}")]
    Description {
        /// As written.
        device: String,
        /// What was expected.
        reason: String,
    },
    /// The device or the system refused.
    #[error("device `{device}`: {action}: {reason}")]
    Refused {
        /// Its name.
        device: String,
        /// What was tried.
        action: &'static str,
        /// What came back, and what to do.
        reason: String,
    },
    /// There is no memory for a pool.
    #[error("packet pool of {bytes} bytes: {source}")]
    Memory {
        /// What was asked for.
        bytes: usize,
        /// What the system said.
        source: std::io::Error,
    },
    /// A pool that cannot be.
    #[error(
        "packet pool of {packets} packets for an MTU of {mtu}: 1 to 2^28 packets, MTU at most 65,000"
    )]
    PoolConfig {
        /// As given.
        packets: usize,
        /// As given.
        mtu: u16,
    },
}

impl Error {
    /// A device was asked for `queues`, and has 1 to `most`.
    pub fn queues(device: &str, queues: u16, most: u16) -> Error {
        let reason = format!("{queues} were asked for; it has 1 to {most}");
        Error::refused(device, "start queues", reason)
    }

    /// The device or the system refused `action`.
    pub fn refused(device: &str, action: &'static str, reason: impl ToString) -> Error {
        Error::Refused { device: device.to_owned(), action, reason: reason.to_string() }
    }

    /// Ok if packets with `room` bytes hold frames of an MTU of `mtu`.
    pub(crate) fn check_mtu(device: &str, mtu: u16, room: usize) -> Result<(), Error> {
        if usize::from(mtu) + LINK_HEADERS <= room {
            return Ok(());
        }
        let most = room - LINK_HEADERS;
        let reason = format!("the pool's packets hold {most} bytes; {mtu} were asked for");
        Err(Error::refused(device, "set MTU", reason))
    }
}

/// Ethernet header and two tags.
const LINK_HEADERS: usize = 22;

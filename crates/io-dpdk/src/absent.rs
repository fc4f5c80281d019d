//! What there is without DPDK.

use io::{Device, Error};

use crate::{Config, Status};

/// Nothing to start.
///
/// # Errors
/// Never.
pub fn init(_config: &Config) -> Result<(), Error> {
    Ok(())
}

/// Refuses.
///
/// # Errors
/// Always: this build has no DPDK.
pub fn open(description: &str) -> Result<Box<dyn Device>, Error> {
    let reason = "this build has no DPDK: build it with the feature `dpdk` and libdpdk-dev, or \
                  use `packet:IFACE`, `mem`, `pcap:IN,OUT` or `tap:NAME`";
    Err(Error::refused(description, "open", reason))
}

/// No pools: no packets.
pub fn packets() -> (usize, usize) {
    (0, 0)
}

/// No DPDK.
pub fn status() -> Option<Status> {
    None
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_says_what_is_missing() {
        let message = super::open("net_null0").err().unwrap().to_string();
        assert!(message.contains("libdpdk-dev") && message.contains("net_null0"));
    }
}

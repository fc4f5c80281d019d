//! Protections among the kernel's routes.

use std::net::IpAddr;

use feeds::netlink::{SHIELD_METRIC, SHIELD_PROTOCOL};

use netlink::message::{attributes, u32_at};
use netlink::names::*;

use super::link::ip;
use crate::config::Net;

/// A protected prefix in one of the kernel's tables.
pub type Shield = (u32, Net);

/// The protection that a kernel route represents; `None` for other routes.
pub(super) fn shield(answer: &[u8]) -> Option<Shield> {
    let &[family, length, _, _, table, protocol, _, kind, ..] = answer.first_chunk::<12>()?;
    let (mut table, mut metric) = (u32::from(table), 0);
    let mut address = match family {
        2 => IpAddr::from([0; 4]),
        _ => IpAddr::from([0; 16]),
    };
    for (kind, value) in attributes(&answer[12..]) {
        match kind {
            RTA_DST => address = ip(value)?,
            RTA_TABLE => table = u32_at(value, 0),
            RTA_PRIORITY => metric = u32_at(value, 0),
            _ => {}
        }
    }
    let ours = (protocol, kind, metric) == (SHIELD_PROTOCOL, RTN_BLACKHOLE, SHIELD_METRIC);
    ours.then_some((table, Net { address, length }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_answers_are_no_protections() {
        assert_eq!(shield(&[]), None);
        assert_eq!(shield(&[2, 24, 0, 0, 254, SHIELD_PROTOCOL, 0, RTN_BLACKHOLE]), None);
        let mut answer = vec![2, 24, 0, 0, 254, SHIELD_PROTOCOL, 0, RTN_BLACKHOLE, 0, 0, 0, 0];
        assert_eq!(shield(&answer), None, "of another metric");
        answer.extend([8, 0, RTA_PRIORITY as u8, 0]);
        answer.extend(SHIELD_METRIC.to_ne_bytes());
        let all = Net { address: IpAddr::from([0; 4]), length: 24 };
        assert_eq!(shield(&answer), Some((254, all)));
        answer.extend([6, 0, RTA_DST as u8, 0, 1, 2]);
        assert_eq!(shield(&answer), None, "an address of two bytes");
    }
}

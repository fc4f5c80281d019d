//! Addresses as the configuration writes them.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An address and the length of the network that it lies in: `192.0.2.1/24`.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Net {
    /// The address, host bits and all.
    pub address: IpAddr,
    /// Bits of the network.
    pub length: u8,
}

impl Net {
    /// A single address: no network.
    pub fn host(address: IpAddr) -> Net {
        Net { address, length: if address.is_ipv4() { 32 } else { 128 } }
    }

    /// The network that the address is in.
    pub fn network(&self) -> Net {
        let address = match self.address {
            IpAddr::V4(a) => IpAddr::from(
                (u32::from(a) & <u32 as lookup::Addr>::mask(self.length)).to_be_bytes(),
            ),
            IpAddr::V6(a) => {
                let mask = <u128 as lookup::Addr>::mask(self.length);
                IpAddr::from((u128::from(a) & mask).to_be_bytes())
            }
        };
        Net { address, length: self.length }
    }

    /// True when `address` is in the network.
    pub fn contains(&self, address: IpAddr) -> bool {
        let other = Net { address, length: self.length };
        self.address.is_ipv4() == address.is_ipv4() && self.network() == other.network()
    }

    /// True for a single address: no network.
    pub fn is_one_address(&self) -> bool {
        *self == Net::host(self.address)
    }

    /// What the address is instead of a host's: an IPv4 network's first and last
    /// are its own and the broadcast address, but where there are two or one
    /// (RFC 3021).
    pub fn reserved_as(&self) -> Option<&'static str> {
        let IpAddr::V4(address) = self.address else { return None };
        let hosts = u32::MAX.checked_shr(self.length.into()).unwrap_or(0);
        match address.to_bits() & hosts {
            _ if hosts <= 1 => None,
            0 => Some("the address of"),
            all if all == hosts => Some("the broadcast address of"),
            _ => None,
        }
    }

    /// True when no bit is set right of the network: a prefix.
    pub fn is_prefix(&self) -> bool {
        match self.address {
            IpAddr::V4(a) => {
                let hosts = u64::from(u32::MAX) >> self.length;
                u64::from(a.to_bits()) & hosts == 0
            }
            IpAddr::V6(a) => {
                let hosts = u128::MAX.checked_shr(self.length.into()).unwrap_or(0);
                a.to_bits() & hosts == 0
            }
        }
    }
}

/// An address that a host may have on a link.
pub fn is_of_host(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => {
            !(a.is_multicast() || a.is_broadcast() || a.is_unspecified() || a.is_loopback())
        }
        IpAddr::V6(a) => !(a.is_multicast() || a.is_unspecified() || a.is_loopback()),
    }
}

/// An address that says nothing without its link (RFC 4291 §2.5.6).
pub fn is_link_local6(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// Why a text is no [`Net`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("expected an address and a length, such as 192.0.2.1/24")]
pub struct NotANet;

impl FromStr for Net {
    type Err = NotANet;

    fn from_str(text: &str) -> Result<Self, NotANet> {
        let (address, length) = text.split_once('/').ok_or(NotANet)?;
        let address: IpAddr = address.parse().map_err(|_| NotANet)?;
        let digits = !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit());
        let length = length.parse().ok().filter(|_| digits).ok_or(NotANet)?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        if length > width { Err(NotANet) } else { Ok(Net { address, length }) }
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// A hardware address.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// True for the address of a single station: no group, not zero.
    pub fn is_station(&self) -> bool {
        self.0[0] & 1 == 0 && self.0 != [0; 6]
    }
}

impl FromStr for Mac {
    type Err = NotAMac;

    fn from_str(text: &str) -> Result<Self, NotAMac> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|part| part.len() == 2).ok_or(NotAMac)?;
            let hex = part.bytes().all(|b| b.is_ascii_hexdigit());
            *byte = u8::from_str_radix(part, 16).ok().filter(|_| hex).ok_or(NotAMac)?;
        }
        if parts.next().is_some() { Err(NotAMac) } else { Ok(Mac(bytes)) }
    }
}

/// Why a text is no [`Mac`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("expected a MAC address, such as 02:00:00:00:00:01")]
pub struct NotAMac;

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nets_are_read_and_written() {
        for text in ["192.0.2.1/24", "0.0.0.0/0", "2001:db8::1/64", "::/0", "::1/128"] {
            assert_eq!(text.parse::<Net>().unwrap().to_string(), text);
        }
        for text in ["", "1.2.3.4", "1.2.3.4/", "1.2.3.4/33", "::/129", "1.2.3/8", "::1/+4"] {
            assert_eq!(text.parse::<Net>(), Err(NotANet), "{text}");
        }
        let prefix = |text: &str| text.parse::<Net>().unwrap().is_prefix();
        assert!(prefix("10.0.0.0/8") && prefix("::/0") && prefix("::1/128") && prefix("0.0.0.0/0"));
        assert!(!prefix("10.0.0.1/8") && !prefix("2001::1/64"));
    }

    #[test]
    fn macs_are_read_and_written() {
        assert_eq!("02:0A:ff:00:00:01".parse::<Mac>().unwrap().to_string(), "02:0a:ff:00:00:01");
        for text in
            ["", "02:00:00:00:00", "02:00:00:00:00:01:02", "2:0:0:0:0:1", "02:00:00:00:00:+1"]
        {
            assert_eq!(text.parse::<Mac>(), Err(NotAMac), "{text}");
        }
    }
}

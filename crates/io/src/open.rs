//! Opens a device from its description in the configuration.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

use crate::pcap::Pcap;
use crate::tap::TapDevice;
use crate::{AfPacket, Device, Error, Pool, PoolConfig, mem};

/// Opens one of Rutter's own devices, over one pool for all of them:
///
/// ```text
/// mem                       receives nothing, counts what is sent
/// pcap:IN,OUT[,raw]         receives a capture's frames, writes another; either may be empty
/// tap:NAME                  a kernel tap
/// packet:IFACE[,direct]     a network interface of the kernel, through its queueing discipline or past it
/// … ,mac=02:00:00:00:00:01  behind any but `packet`: its hardware address
/// ```
///
/// # Errors
/// When the description is none of these ([`Error::Description`]), or the
/// device cannot be opened.
pub fn open(description: &str) -> Result<Box<dyn Device>, Error> {
    static SHARED: OnceLock<Pool> = OnceLock::new();
    let pool = match SHARED.get() {
        Some(pool) => pool,
        None => {
            let pool = Pool::new(&PoolConfig::default())?;
            SHARED.get_or_init(|| pool)
        }
    };
    open_with(description, pool)
}

/// As [`open`], with packets from `pool`.
///
/// # Errors
/// As [`open`].
pub fn open_with(description: &str, pool: &Pool) -> Result<Box<dyn Device>, Error> {
    let (kind, rest) = match description.find([':', ',']) {
        Some(at) if description.as_bytes()[at] == b':' => {
            (&description[..at], Some(&description[at + 1..]))
        }
        Some(at) => (&description[..at], Some(&description[at..])),
        None => (description, None),
    };
    let wrong = |reason: &str| Error::Description {
        device: description.to_owned(),
        reason: reason.to_owned(),
    };
    let mut words: Vec<&str> = rest.unwrap_or("").split(',').collect();
    if kind == "packet" {
        return match words[..] {
            [name] if !name.is_empty() => Ok(Box::new(AfPacket::open(name, false, pool)?)),
            [name, "direct"] if !name.is_empty() => Ok(Box::new(AfPacket::open(name, true, pool)?)),
            _ => Err(wrong("expected `packet:IFACE` or `packet:IFACE,direct`")),
        };
    }
    let mac = match words.iter().position(|word| word.starts_with("mac=")) {
        Some(at) => parse_mac(&words.remove(at)[4..])
            .ok_or_else(|| wrong("`mac=` wants six bytes: mac=02:00:00:00:00:01"))?,
        None => next_mac(),
    };
    match (kind, &words[..]) {
        ("mem", [] | [""]) => Ok(Box::new(mem::sink(description, mac, pool))),
        ("pcap", [input, output]) => {
            Ok(Box::new(Pcap::open(description, mac, (input, output), false, pool)?))
        }
        ("pcap", [input, output, "raw"]) => {
            Ok(Box::new(Pcap::open(description, mac, (input, output), true, pool)?))
        }
        ("tap", [name]) if !name.is_empty() => Ok(Box::new(TapDevice::open(name, mac, pool)?)),
        ("mem", _) => Err(wrong("expected `mem`")),
        ("pcap", _) => Err(wrong("expected `pcap:IN,OUT` or `pcap:IN,OUT,raw`")),
        ("tap", _) => Err(wrong("expected `tap:NAME`")),
        _ => Err(wrong("expected `mem`, `packet:IFACE`, `pcap:IN,OUT` or `tap:NAME`")),
    }
}

/// Whether [`open`] knows the kind of device that `description` names.
pub fn is_own(description: &str) -> bool {
    matches!(description.split([':', ',']).next(), Some("mem" | "packet" | "pcap" | "tap"))
}

fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        let part = parts.next().filter(|part| part.len() == 2)?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    let group = mac[0] & 1 != 0;
    (parts.next().is_none() && !group).then_some(mac)
}

/// Locally administered; the same for the same order of devices.
fn next_mac() -> [u8; 6] {
    static LAST: AtomicU16 = AtomicU16::new(0);
    let [high, low] = (LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1)).to_be_bytes();
    [0x02, b'R', b'u', b't', high, low]
}

#[cfg(all(test, not(miri)))] // system calls
mod tests {
    use super::*;

    fn refusal(description: &str) -> String {
        assert!(!matches!(open(description), Err(Error::Refused { .. })), "{description}");
        open(description).err().unwrap().to_string()
    }

    #[test]
    fn descriptions_are_understood_or_explained() {
        assert_eq!(open("mem,mac=02:00:00:00:00:0a").unwrap().mac(), [2, 0, 0, 0, 0, 10]);
        assert_ne!(open("mem").unwrap().mac(), open("mem").unwrap().mac());
        assert!(open("pcap:,").unwrap().start(1).is_ok());
        for (description, want) in [
            ("mem:5", "expected `mem`"),
            ("pcap:a", "pcap:IN,OUT"),
            ("pcap:a,b,c", "pcap:IN,OUT"),
            ("pcap", "pcap:IN,OUT"),
            ("tap", "tap:NAME"),
            ("tap:a,b", "tap:NAME"),
            ("packet:", "packet:IFACE"),
            ("packet", "packet:IFACE"),
            ("packet:a,b", "packet:IFACE,direct"),
            ("mem,mac=1:2", "six bytes"),
            ("mem,mac=01:00:00:00:00:00", "six bytes"),
            ("net_null0", "expected `mem`"),
            ("", "expected `mem`"),
        ] {
            let got = refusal(description);
            assert!(got.contains(want), "{description}: {got}");
        }
        assert!(
            is_own("pcap:x,y")
                && is_own("mem")
                && is_own("packet:v0")
                && !is_own("net_pcap0,iface=x")
        );
    }

    #[test]
    fn a_sink_takes_and_counts() {
        let mut device = open("mem").unwrap();
        let mut ports = device.start(1).unwrap();
        ports[0].attach(0);
        let mut packet = ports[0].allocate();
        packet.as_mut().unwrap().fill(b"abc");
        assert_eq!(ports[0].transmit(&mut [packet]), 1);
        assert_eq!(ports[0].receive(&mut crate::Burst::new(), 64), 0);
        assert_eq!((device.counters().tx_packets, device.counters().tx_bytes), (1, 3));
    }
}

//! Fragments that go on as one packet, and first fragments that are refused.

use wire::ipv4;

use super::super::settings::Settings;
use super::fragments::{rig, summed};
use super::rig::{Rig, datagram, datagram6, grant, in_v4, in_v4_from, in_v6, inside, settings};

/// An IPv4 packet in fragments of this many bytes.
fn parted4(packet: &[u8], sizes: &[usize]) -> Vec<Vec<u8>> {
    let (header, bytes) = packet.split_at(20);
    let mut at = 0;
    let part = |&len: &usize| {
        let end = (at + len).min(bytes.len());
        let word = (at / 8) as u16 | if end < bytes.len() { ipv4::MORE_FRAGMENTS } else { 0 };
        let mut part = [header, &bytes[at..end]].concat();
        part[2..4].copy_from_slice(&((20 + end - at) as u16).to_be_bytes());
        part[6..8].copy_from_slice(&word.to_be_bytes());
        at = end;
        summed(part)
    };
    sizes.iter().map(part).collect()
}

/// The same for IPv6; `before` is the header before the Fragment header.
fn parted6(packet: &[u8], before: &[u8], sizes: &[usize]) -> Vec<Vec<u8>> {
    let (header, bytes) = packet.split_at(40);
    let mut at = 0;
    let part = |&len: &usize| {
        let end = (at + len).min(bytes.len());
        let word = (at as u16 | u16::from(end < bytes.len())).to_be_bytes();
        let fragment = [header[6], 0, word[0], word[1], 0, 0, 0, 7];
        let mut part = [header, before, &fragment, &bytes[at..end]].concat();
        let len = part.len() - 40;
        part[4..6].copy_from_slice(&(len as u16).to_be_bytes());
        part[6] = if before.is_empty() { 44 } else { 60 };
        at = end;
        part
    };
    sizes.iter().map(part).collect()
}

/// `packet` with this options header before its former first header.
fn behind_options(packet: &[u8]) -> Vec<u8> {
    let mut packet = [&packet[..40], &OPTIONS, &packet[40..]].concat();
    (packet[40], packet[6]) = (packet[6], 60);
    let len = packet.len() as u16 - 40;
    packet[4..6].copy_from_slice(&len.to_be_bytes());
    packet
}

const OPTIONS: [u8; 8] = [44, 0, 1, 4, 0, 0, 0, 0];

fn joining() -> Rig {
    let mut rig = rig(grant);
    rig.change(|settings| settings.reassemble = true);
    rig
}

#[test]
fn what_is_granted_goes_on_as_one_where_that_is_wanted() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let mut rig = joining();
        let (four, six) = (datagram(7, 900), datagram6(7, 900));
        let parts = [
            parted4(&four, &[400, 8, 500]).into_iter().map(|part| in_v4(41, &part)).collect(),
            parted6(&six, &[], &[16, 800, 92]).into_iter().map(|p| in_v6(41, 0, &p)).collect(),
            parted6(&six, &OPTIONS, &[16, 800, 92]).iter().map(|p| in_v6(41, 0, p)).collect(),
        ];
        let wholes = [parted4(&four, &[1_000]).remove(0), six.clone(), behind_options(&six)];
        for (parts, whole) in parts.into_iter().zip(wholes) {
            let parts: Vec<Vec<u8>> = parts;
            let got = rig.send(&order.map(|n| parts[n].clone()));
            assert_eq!(got, [inside(&whole)]);
        }
        assert_eq!((rig.held(), rig.dropped("grantor", "fragment_joined")), (0, 6));
        let counts = [&rig.counters.whole, &rig.counters.joined, &rig.counters.apart];
        assert_eq!(counts.map(|count| count.get()), [3, 3, 0]);
        // The policy got the same questions as before, each once.
        assert_eq!(rig.policy.lock().asked.len(), 3);
    }
}

/// The route's MTU is 1,500 bytes; then the buffer's size is the limit.
#[test]
fn what_is_too_long_for_its_way_or_a_buffer_goes_on_as_it_came() {
    for (len, goes) in [(1_472, 1), (1_473, 2)] {
        let mut rig = joining();
        let parts = parted4(&datagram(7, len), &[800, 800]);
        let got = rig.send(&[in_v4(41, &parts[1]), in_v4(41, &parts[0])]);
        assert_eq!(got.len(), goes, "{len}");
        if goes == 2 {
            assert_eq!(got, [inside(&parts[0]), inside(&parts[1])]);
        }
        assert_eq!((rig.held(), rig.counters.apart.get()), (0, goes as u64 - 1));
    }
    let six = |len| parted6(&datagram6(7, len), &[], &[800, 800]);
    for (len, goes) in [(1_452, 1), (1_453, 2)] {
        let mut rig = joining();
        assert_eq!(rig.send(&[0, 1].map(|n| in_v6(41, 0, &six(len)[n]))).len(), goes);
    }
    // Buffers of 600 bytes: the route's MTU is larger.
    let config = io::PoolConfig { packets: 4096, mtu: 600, large_pages: false };
    let pool = io::Pool::new(&config).unwrap();
    let settings = Settings { reassemble: true, ..settings() };
    let mut rig = Rig::of(pool, Some(grant), (64, 16), settings);
    let parts = parted4(&datagram(7, 1_400), &[480, 480, 480]);
    let got = rig.send(&parts.iter().map(|part| in_v4(41, part)).collect::<Vec<_>>());
    assert_eq!(got, parts.iter().map(|part| inside(part)).collect::<Vec<_>>());
    assert_eq!((rig.held(), rig.counters.apart.get(), rig.counters.joined.get()), (0, 1, 0));
}

/// RFC 3168 §5.3: if one fragment reports congestion, the whole packet does; if another cannot
/// report it, the packet is dropped.
#[test]
fn congestion_of_one_is_that_of_the_whole() {
    use super::super::settings::Ecn::{Deployed, Rfc6040};
    let parts = |ecn: [u8; 2]| {
        let mut packet = datagram(7, 200);
        packet[1] = 0x28 | ecn[0];
        let mut parts = parted4(&packet, &[104, 104]);
        parts[1][1] = 0x28 | ecn[1];
        [parts[0].clone(), summed(parts[1].clone())]
    };
    for (mode, inner, outer, want) in [
        (Deployed, [2, 2], [0, 0], Some(2)),
        (Deployed, [2, 2], [0, 3], Some(3)),
        (Deployed, [0, 0], [0, 3], Some(3)),
        (Deployed, [1, 3], [0, 0], Some(3)),
        (Rfc6040, [2, 2], [3, 0], Some(3)),
        (Rfc6040, [2, 2], [0, 3], Some(3)),
        (Rfc6040, [2, 0], [3, 0], None),
        (Rfc6040, [0, 0], [0, 3], None),
        (Rfc6040, [2, 2], [1, 1], Some(1)),
    ] {
        let mut rig = joining();
        rig.change(|settings| settings.ecn = mode);
        let parts = parts(inner);
        let tunnelled = |n: usize| in_v4_from([10, 0, 2, 1], 41 << 2 | outer[n], &parts[n]);
        let got = rig.send(&[tunnelled(0), tunnelled(1)]);
        let mut whole = parted4(&datagram(7, 200), &[1_000]).remove(0);
        let want: Vec<_> = want
            .into_iter()
            .map(|ecn| {
                whole[1] = 0x28 | ecn;
                inside(&summed(whole.clone()))
            })
            .collect();
        assert_eq!(got, want, "{mode:?} {inner:?} {outer:?}");
        assert_eq!(rig.held(), 0);
        assert_eq!(rig.dropped("grantor", "congested"), if want.is_empty() { 2 } else { 0 });
    }
}

/// RFC 1858, RFC 3128, RFC 7112: TCP flags that are in a later fragment, or that one overwrites.
#[test]
fn first_fragments_without_the_flags_are_refused() {
    let tcp4 = |sizes: &[usize]| {
        let mut packet = datagram(7, 100);
        packet[9] = 6;
        parted4(&packet, sizes)
    };
    let tcp6 = |sizes: &[usize]| {
        let mut packet = datagram6(7, 100);
        packet[6] = 6;
        parted6(&packet, &[], sizes)
    };
    for (first, is_tiny) in [(8, true), (16, false)] {
        let mut rig = joining();
        let parts = tcp4(&[first, 200]);
        let got = rig.send(&[in_v4(41, &parts[0]), in_v4(41, &parts[1])]);
        assert_eq!(got.is_empty(), is_tiny);
        assert_eq!(rig.dropped("grantor", "fragment_tiny"), u64::from(is_tiny));
        assert_eq!(rig.held(), u64::from(is_tiny), "the other waits for its first");
    }
    for (first, is_tiny) in [(16, true), (24, false)] {
        let mut rig = joining();
        let parts = tcp6(&[first, 200]);
        rig.send(&[in_v6(41, 0, &parts[0]), in_v6(41, 0, &parts[1])]);
        assert_eq!(rig.dropped("grantor", "fragment_tiny"), u64::from(is_tiny));
    }
    // The first fragment has only an options header behind the Fragment header.
    let mut rig = joining();
    let packet = behind_options(&datagram6(7, 100));
    let mut parts = parted6(&packet, &[], &[8, 200]);
    parts.iter_mut().for_each(|part| part[40] = 60);
    parts[0][48] = 17;
    rig.send(&[in_v6(41, 0, &parts[0]), in_v6(41, 0, &parts[1])]);
    assert_eq!((rig.dropped("grantor", "fragment_tiny"), rig.held()), (1, 1));
    // A later fragment overwrites the flags of a first one that was long enough.
    let mut rig = joining();
    let over = [tcp4(&[16, 200]).remove(0), tcp4(&[8, 200]).remove(1)];
    assert!(rig.send(&over.map(|part| in_v4(41, &part))).is_empty());
    assert_eq!((rig.dropped("grantor", "fragment_overlap"), rig.held()), (2, 0));
}

/// RFC 6946: an atomic fragment is a whole packet, whatever other fragments have its id.
#[test]
fn one_of_one_meets_no_others() {
    let mut rig = joining();
    let six = datagram6(7, 300);
    let parts = parted6(&six, &[], &[160, 160]);
    let alone = parted6(&datagram6(7, 100), &[], &[200]).remove(0);
    assert!(rig.send(&[in_v6(41, 0, &parts[0])]).is_empty());
    assert_eq!(rig.send(&[in_v6(41, 0, &alone)]), [inside(&datagram6(7, 100))]);
    assert_eq!(rig.send(&[in_v6(41, 0, &parts[1])]), [inside(&six)]);
    assert_eq!((rig.held(), rig.counters.whole.get()), (0, 2));
    rig.change(|settings| settings.reassemble = false);
    assert_eq!(rig.send(&[in_v6(41, 0, &alone)]), [inside(&alone)]);
    assert_eq!(rig.policy.lock().asked.iter().filter(|one| one.facts.frag).count(), 0);
}

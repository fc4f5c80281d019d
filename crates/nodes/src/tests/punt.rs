//! What goes to the kernel, and how much of it.

use super::router::Rig;
use crate::testbed::{to_p0, udp4};
use crate::{Class, Rates};

/// A refused packet reaches no kernel, so nobody asks for its destination: the next may go.
#[test]
fn what_is_refused_does_not_hold_its_destination_back() {
    let to = |host: u8| to_p0(udp4(&format!("10.3.0.{host}")).payload(&[0; 1400]));
    let mut rates = Rates::default();
    rates.set(Class::NoNeighbour, 100); // 32 at once, then one each 10 ms
    let mut rig = Rig::new(&rates);
    (0..250).for_each(|host| rig.peers[0].push(&to(host)));
    rig.run();
    assert!((32..40).contains(&rig.punted().len()));
    std::thread::sleep(std::time::Duration::from_millis(50));
    rig.peers[0].push(&to(249));
    rig.run();
    assert_eq!(rig.punted().len(), 1, "beyond the rate");

    rates.set(Class::NoNeighbour, 100_000);
    let mut rig = Rig::new(&rates);
    let to = |i: u32| to_p0(udp4(&format!("10.3.{}.{}", i / 250, i % 250)).payload(&[0; 1400]));
    (0..1000).for_each(|i| rig.peers[0].push(&to(i)));
    assert!(rig.run().dropped("punt", "ring_full") > 100);
    rig.punted();
    rig.peers[0].push(&to(999));
    rig.run();
    assert_eq!(rig.punted().len(), 1, "a full ring");
}

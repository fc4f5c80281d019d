//! What code without `unsafe` may try on packets, bursts, pools and ports. Each attempt
//! is refused or harmless here; that it is harmless to memory, miri and
//! AddressSanitizer see (`scripts/deep.sh`). What must not even compile is at
//! [`io::Packet`], [`io::Burst`] and [`io::Frames`].
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use io::mem::{Ring, RingDevice};
use io::{BEFORE, Burst, Device, L2_ROOM, Owned, Pool, PoolConfig, Port, VECTOR};

fn pool(packets: usize) -> Pool {
    Pool::new(&PoolConfig { packets, mtu: 600, large_pages: false }).unwrap()
}

fn frame(pool: &Pool, byte: u8, len: usize) -> Owned {
    let mut packet = pool.allocate().unwrap();
    assert!(packet.fill(&vec![byte; len]));
    packet
}

/// A burst of `n` packets, each filled with its number.
fn burst(pool: &Pool, n: u8) -> Box<Burst> {
    let mut burst = Burst::new();
    (0..n).for_each(|i| burst.push(frame(pool, i, 60)));
    burst
}

fn free(pool: &Pool, burst: &mut Burst) {
    pool.put(burst.packets());
    burst.clear();
}

/// Indices inside, beside, and far outside.
fn indices() -> impl Iterator<Item = usize> {
    (0..VECTOR + 3).step_by(7).chain([1 << 16, usize::MAX - 1, usize::MAX])
}

/// Numbers below what is asked, the same in every run.
fn numbers() -> impl FnMut(usize) -> usize {
    let mut state = 1_u64;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    }
}

/// Writes through everything that a burst hands out.
fn scribble(burst: &mut Burst, i: usize) {
    burst.head_mut(i).fill(0xee);
    burst.before_mut(i).fill(0xee);
    assert_eq!(burst.head(i), &[0xee; 64]);
}

#[test]
fn every_index_has_a_head() {
    let pool = pool(8);
    let mut few = burst(&pool, 3);
    for i in indices() {
        scribble(&mut few, i);
        if i % VECTOR >= 3 {
            assert_eq!((few.len(i), few.packet(i).is_none()), (0, true));
            assert!(!few.advance(i, 1) && few.advance(i, 0));
            assert!(!few.frame(i, 14, 0) && !few.retreat(i, 0) && few.take(i).is_none());
            assert!(!few.wrap(i, 20, 14, 0) && !few.wrap(i, 0, 0, 0));
            assert!(!few.unwrap(i, 20, 0) && !few.unwrap(i, 0, 0));
            assert!(few.behind(i, 1).is_none() && few.behind(i, 0) == Some(few.head(i)));
            few.ask(i);
            few.ask_before(i);
            few.rewind(i);
            assert_eq!(few.edit(i, |_| ()), None);
        }
    }
    free(&pool, &mut few);
    assert_eq!(pool.available(), 8);
}

#[test]
fn bursts_share_nothing() {
    let (mut one, other) = (Burst::new(), Burst::new());
    indices().for_each(|i| scribble(&mut one, i));
    indices().for_each(|i| assert_eq!(other.head(i), &[0; 64]));
    // A burst may be moved, and swapped with another, while its heads are in use.
    let pool = pool(4);
    let (mut a, mut b) = (burst(&pool, 2), burst(&pool, 2));
    std::mem::swap(&mut *a, &mut *b);
    let mut moved = *a;
    indices().for_each(|i| scribble(&mut moved, i));
    drop(other);
    [&mut moved, &mut b].into_iter().for_each(|burst| free(&pool, burst));
}

/// However a packet leaves, its head does not follow it: what is written there is
/// not seen in packets, nor what others write into packets here.
#[test]
fn heads_do_not_outlive_packets() {
    let pool = pool(64);
    let leave: [fn(&Pool, &mut Burst); 6] = [
        |pool, burst| pool.put(burst.packets()),
        |pool, burst| (0..20).for_each(|i| pool.put(&mut [burst.take(i)])),
        |pool, burst| {
            burst.retain(0, |packet| {
                pool.put(&mut [Some(packet)]);
                None
            });
        },
        |pool, burst| {
            pool.put(burst.packets());
            burst.clear();
        },
        // Rewound to the packets before they go: a sink that looks once more.
        |pool, burst| {
            burst.packets();
            (0..20).for_each(|i| burst.rewind(i));
            pool.put(burst.packets());
        },
        |pool, burst| {
            let mut other = Burst::new();
            std::mem::swap(&mut *other, burst);
            free(pool, &mut other);
        },
    ];
    for leave in leave {
        let mut old = burst(&pool, 20);
        leave(&pool, &mut old);
        let mut again: Vec<_> = (0..20).map(|i| Some(frame(&pool, i, 60))).collect();
        indices().for_each(|i| scribble(&mut old, i));
        for (i, packet) in again.iter().flatten().enumerate() {
            assert_eq!(packet.data(), [i as u8; 60]);
        }
        pool.put(&mut again);
        assert_eq!(pool.available(), 64);
    }
}

#[test]
fn packets_put_in_each_others_places_stay_reachable_only_there() {
    let pool = pool(16);
    let mut burst = burst(&pool, 4);
    let packets = burst.packets();
    packets.swap(0, 3);
    let gone = packets[1].take();
    packets[1] = Some(frame(&pool, 9, 30));
    for i in 0..4 {
        burst.rewind(i);
    }
    assert_eq!((burst.head(0)[0], burst.head(1)[0], burst.len(1)), (3, 9, 30));
    // An edit that puts another in place, and one that does and then panics.
    let mut spare = frame(&pool, 7, 50);
    burst.edit(0, |packet| std::mem::swap(packet, &mut spare)).unwrap();
    assert_eq!((burst.head(0)[0], burst.len(0), spare.data()[0]), (7, 50, 3));
    let panics = AssertUnwindSafe(|| {
        burst.edit(2, |packet| {
            std::mem::swap(packet, &mut spare);
            panic!("in the middle")
        })
    });
    assert!(catch_unwind(panics).is_err());
    pool.put(&mut [gone, Some(spare)]);
    scribble(&mut burst, 2);
    assert_eq!(burst.packet(2).unwrap().data(), [3; 60]);
    free(&pool, &mut burst);
    assert_eq!(pool.available(), 16);
}

#[test]
fn lengths_are_held_to_the_buffer() {
    let pool = pool(4);
    let mut packet = frame(&pool, 1, 10);
    let room = packet.room();
    let huge = [room + 1, 60_000, 65_536 + 10, usize::MAX - 31, usize::MAX - 100, usize::MAX];
    for n in huge {
        assert!(!packet.resize(n) && !packet.prepend(n) && !packet.strip(n), "{n}");
        assert_eq!(packet.data(), [1; 10]);
    }
    assert!(packet.resize(room) && !packet.prepend(1), "longer than a whole headroom leaves");
    packet.data_mut().fill(2);
    assert!(packet.strip(room) && packet.data().is_empty() && !packet.strip(1));
    assert!(packet.resize(10));
    let mut front = 0;
    while packet.prepend(1) {
        packet.data_mut()[0] = 3;
        front += 1;
    }
    assert_eq!(front, 128 - 32);
    let large = Pool::new(&PoolConfig { packets: 1, mtu: 9000, large_pages: false }).unwrap();
    let long = frame(&large, 0, 9000);
    assert!(!packet.copy_from(&long));
    pool.put(&mut [Some(packet), Some(long)]);
    assert_eq!((pool.available(), large.available()), (4, 1));
}

/// Heads and frames pushed as far to either side as they go, in every order.
#[test]
fn heads_stay_in_their_buffers() {
    let pool = pool(32);
    let (rounds, mut random) = (if cfg!(miri) { 300 } else { 100_000 }, numbers());
    let mut all = burst(&pool, 31);
    let beside = frame(&pool, 0xaa, pool.room());
    for _ in 0..rounds {
        let (i, by) = (random(33), [random(70), L2_ROOM, pool.room(), usize::MAX][random(4)]);
        match random(9) {
            0 => drop(all.advance(i, by)),
            1 => drop(all.retreat(i, by)),
            2 => drop(all.frame(i, by, random(80))),
            3 => drop(all.frame(i, L2_ROOM, all.len(i).into())),
            4 => all.rewind(i),
            5 => drop(all.edit(i, |packet| (packet.prepend(by), packet.strip(random(9))))),
            6 => drop(all.wrap(i, by, [14, L2_ROOM, by][random(3)], [random(120), by][random(2)])),
            7 => drop(all.unwrap(i, by, [random(120), by][random(2)])),
            _ => drop(all.edit(i, |packet| packet.resize(by))),
        }
        let behind = all.behind(i, by).copied();
        assert_eq!(behind.is_some(), by <= all.len(i).into());
        scribble(&mut all, i);
        if let Some(packet) = all.packet(i) {
            assert!(packet.packet().headroom() >= BEFORE as u16);
            assert!(packet.data().len() <= pool.room() && all.len(i) <= packet.packet().len());
        }
    }
    assert!(beside.data().iter().all(|&byte| byte == 0xaa));
    pool.put(&mut [Some(beside)]);
    free(&pool, &mut all);
}

/// One step does what two do, or nothing.
#[test]
fn to_wrap_is_to_retreat_and_to_frame() {
    let pool = pool(8);
    let (rounds, mut random) = (if cfg!(miri) { 300 } else { 100_000 }, numbers());
    let (mut one, mut two) = (burst(&pool, 1), burst(&pool, 1));
    let seen = |burst: &Burst| {
        let packet = burst.packet(0).unwrap();
        (burst.len(0), packet.packet().headroom(), packet.packet().len())
    };
    let mut wrapped = 0;
    for _ in 0..rounds {
        let len = [random(200), pool.room() - random(60), pool.room()][random(3)];
        let over = [random(40), 14][random(2)];
        for burst in [&mut one, &mut two] {
            burst.edit(0, |packet| packet.resize(len));
            burst.advance(0, over);
        }
        let (by, l2) = ([0, 20, 40, random(150)][random(4)], [14, 18, 22, random(40)][random(4)]);
        let l3 = usize::from(one.len(0)) + by - random(3).min(by);
        let before = seen(&one);
        let both = two.retreat(0, by) && two.frame(0, l2, l3);
        assert_eq!(one.wrap(0, by, l2, l3), both, "{before:?} {by} {l2} {l3}");
        assert_eq!(seen(&one), if both { seen(&two) } else { before });
        wrapped += usize::from(both);
    }
    assert!(wrapped > rounds / 4 && wrapped < rounds);
    [one, two].iter_mut().for_each(|burst| free(&pool, burst));
}

#[test]
fn to_unwrap_is_to_advance_and_to_frame() {
    let pool = pool(8);
    let (rounds, mut random) = (if cfg!(miri) { 300 } else { 100_000 }, numbers());
    let (mut one, mut two) = (burst(&pool, 1), burst(&pool, 1));
    let seen = |burst: &Burst| {
        let packet = burst.packet(0).unwrap();
        let frame = (packet.packet().headroom(), packet.packet().len(), packet.packet().flow());
        (burst.len(0), frame, *burst.head(0))
    };
    let mut unwrapped = 0;
    for round in 0..rounds {
        let len = [random(200), pool.room() - random(60), pool.room()][random(3)];
        let over = [random(L2_ROOM + 1), 14][random(2)];
        for burst in [&mut one, &mut two] {
            burst.edit(0, |packet| {
                packet.resize(len);
                packet.data_mut().iter_mut().enumerate().for_each(|(i, byte)| *byte = i as u8);
            });
            burst.advance(0, over);
        }
        let by = [0, 20, 40, random(150)][random(4)];
        let l2 = usize::from(two.packet(0).unwrap().packet().len() - two.len(0));
        let l3 = usize::from(one.len(0)).saturating_sub(by + random(3)) + random(2);
        let before = seen(&one);
        let behind = one.behind(0, by).copied();
        let advanced = two.advance(0, by);
        assert_eq!(behind, advanced.then(|| *two.head(0)), "{before:?} {by}");
        let both = advanced && two.frame(0, l2, l3);
        if both {
            two.forget_flow(0);
        }
        assert_eq!(one.unwrap(0, by, l3), both, "{round} {before:?} {by} {l3}");
        assert_eq!(seen(&one), if both { seen(&two) } else { before });
        unwrapped += usize::from(both);
    }
    assert!(unwrapped > rounds / 4 && unwrapped < rounds);
    [one, two].iter_mut().for_each(|burst| free(&pool, burst));
}

#[test]
fn drivers_that_lie_get_no_further() {
    let pool = pool(8);
    let mut burst = Burst::new();
    burst.accept(1000, Some);
    assert_eq!((burst.n(), burst.is_empty()), (0, true));
    burst.spare()[3] = Some(frame(&pool, 4, 40));
    burst.accept(2, Some);
    assert_eq!(burst.n(), 0, "it was not among those that the driver said");
    burst.accept(VECTOR, Some);
    assert_eq!((burst.n(), burst.head(0)[0], burst.len(0)), (1, 4, 40));
    let refused = AssertUnwindSafe(|| burst.retain(0, |_| panic!("in the middle")));
    assert!(catch_unwind(refused).is_err()); // the packet is lost
    indices().for_each(|i| scribble(&mut burst, i));
    burst.clear();
    let many = self::pool(VECTOR + 1);
    let full = AssertUnwindSafe(|| (0..=VECTOR).for_each(|_| burst.push(frame(&many, 0, 60))));
    assert!(catch_unwind(full).is_err());
    assert_eq!((burst.n(), burst.spare().len()), (VECTOR, 0));
    free(&many, &mut burst);
    let beyond = AssertUnwindSafe(|| burst.truncate(1));
    assert!(catch_unwind(beyond).is_err());
}

/// In debug builds a packet that is written over panics: nothing may be half done then.
#[test]
fn what_a_driver_leaves_beyond_the_end_is_lost_at_most() {
    let pool = pool(8);
    let mut burst = Burst::new();
    burst.spare()[0] = Some(frame(&pool, 1, 60));
    let push = AssertUnwindSafe(|| burst.push(frame(&pool, 2, 60)));
    let refused = catch_unwind(push).is_err();
    assert_eq!((refused, burst.n()), (cfg!(debug_assertions), usize::from(!refused)));
    if refused {
        // Whatever is there now, the burst has no head in it.
        let packet = burst.spare()[0].take();
        scribble(&mut burst, 0);
        assert!(packet.iter().all(|packet| packet.data()[0] != 0xee));
        pool.put(&mut [packet]);
    }
    free(&pool, &mut burst);

    let config = PoolConfig { packets: 4, mtu: 600, large_pages: false };
    let rings = [Ring::new(&config, 1, |_, _| 60).unwrap()];
    let mut device = RingDevice::new("m0", [2; 6], 0, &rings, &pool);
    let mut port = device.start(1).unwrap().remove(0);
    port.attach(0);
    burst.spare()[2] = Some(frame(&pool, 3, 60));
    let receive = AssertUnwindSafe(|| port.receive(&mut burst, 64));
    let refused = catch_unwind(receive).is_err();
    assert_eq!((refused, burst.n()), (cfg!(debug_assertions), if refused { 0 } else { 4 }));
    let mut left: Vec<_> = burst.spare().iter_mut().filter_map(Option::take).collect();
    assert_eq!(left.len(), usize::from(refused), "none is in the ring and here");
    left.iter_mut().for_each(|packet| packet.data_mut().fill(9));
    left.into_iter().for_each(|packet| pool.put(&mut [Some(packet)]));
    if !refused {
        port.free(burst.packets());
    }
    burst.clear();
}

#[test]
fn packets_go_home_from_any_thread_and_once() {
    let (one, two) = (pool(8), pool(8));
    let other = frame(&two, 0, 60);
    assert!(catch_unwind(AssertUnwindSafe(|| one.number(&other))).is_err());
    two.put(&mut [Some(other)]);
    let packets: Vec<_> = (0..4).map(|i| frame(&one, i, 60)).collect();
    std::thread::spawn(move || {
        let mut two = two;
        two.attach(0);
        packets.into_iter().for_each(|packet| two.put(&mut [Some(packet)]));
        assert_eq!(two.available(), 8);
    })
    .join()
    .unwrap();
    assert_eq!(one.available(), 8);
    std::mem::forget(frame(&one, 1, 60));
    assert_eq!(one.available(), 7, "lost, not given twice");
}

/// A ring gives each packet its whole headroom back: also one that grew into it.
#[test]
fn rings_give_no_room_that_is_not_there() {
    let config = PoolConfig { packets: 4, mtu: 600, large_pages: false };
    let ring = Ring::new(&config, 1, |_, room| {
        room.fill(5);
        room.len()
    });
    let rings = [ring.unwrap()];
    let mut device = RingDevice::new("m0", [2; 6], 0, &rings, &pool(4));
    let mut port = device.start(1).unwrap().remove(0);
    port.attach(0);
    for round in 0..8 {
        let mut burst = Burst::new();
        assert_eq!(port.receive(&mut burst, 64), 4);
        for i in 0..4 {
            let room = burst.packet(i).unwrap().room();
            assert!(usize::from(burst.len(i)) <= room, "round {round}");
            burst.edit(i, |packet| packet.data_mut().fill(6)).unwrap();
            burst.retreat(i, 40);
            burst.frame(i, L2_ROOM, burst.len(i).into());
            burst.edit(i, |packet| packet.prepend(4)).unwrap();
        }
        assert_eq!(port.transmit(burst.packets()), 4);
        burst.clear();
    }
    drop(port);
}

/// A port in safe code that says what is not so.
struct Liar(Box<dyn Port>);

#[test]
fn ports_are_a_safe_trait() {
    let pool = pool(8);
    let (mut device, peer) = io::mem::connect("p0", [2; 6], &pool);
    let mut liar = Liar(device.start(1).unwrap().remove(0));
    peer.push(&[1; 60]);
    let mut burst = Burst::new();
    assert_eq!(liar.0.receive(&mut burst, usize::MAX), 1);
    let n = burst.n();
    assert_eq!(liar.0.transmit(&mut []), 0);
    assert_eq!((n, liar.0.transmit(burst.packets())), (1, 1));
    indices().for_each(|i| scribble(&mut burst, i));
    liar.0.free(burst.packets());
    burst.clear();
    assert_eq!(pool.available(), 8);
}

//! Throw-away measurement.
use graph::ring::frames;
use io::mem::{Ring, RingDevice};
use io::{Device, Pool, PoolConfig};
use lookup::lpm::{Engines, Options};
use lookup::sync::Domain;
use lookup::{Hop, Prefix, Rib};
use nodes::router::{Parts, router};
use nodes::{IfaceCounters, Rates};
use std::sync::Arc;
use tables::*;
use wire::build::Frame;
use wire::ethernet::Mac;

fn rng(s: &mut u64) -> u64 {
    *s = s.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*s ^ (*s >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let packets: usize = args.get(1).map_or(16_000, |a| a.parse().unwrap());
    let mode = args.get(2).map_or("v4", |a| a.as_str()).to_owned();
    let prefixes: usize = args.get(3).map_or(1_000_000, |a| a.parse().unwrap());
    let mac = [2, 0, 0, 0, 0, 0xa0];
    let domain = Domain::new();
    let f = Forwarding::new(&domain);
    let iface = |n: u16| Iface {
        name: format!("p{n}"),
        port: PortId(n),
        tags: Tags::None,
        mac,
        mtu: 1500,
        vrf: VrfId(0),
        up: true,
    };
    f.ifaces.publish(Ifaces::new([iface(0), iface(1)]));
    let hops = HopTable::new(256, 64, 256);
    for i in 8..72u32 {
        let p = (i % 2) as u16;
        let adj = Adjacency::new(
            (IfaceId(p + 1), PortId(p), 1500),
            mac,
            [2, 0, 0, 0, 1, i as u8],
            Tags::None,
            0x0800,
        );
        hops.set_adjacency(AdjacencyId(i), &adj);
        let step = if mode == "ecmp" {
            Step::new(Kind::Multipath, (i - 8) / 2 + 1)
        } else {
            Step::new(Kind::Forward, i)
        };
        hops.set_step(Hop(i), step);
        if mode == "ecmp" {
            hops.set_step(Hop(i + 64), Step::new(Kind::Forward, i));
            if i % 2 == 0 {
                hops.set_group(
                    (i - 8) / 2 + 1,
                    (i - 8) * 2,
                    &[Hop(i + 64), Hop(i + 65), Hop(i + 64), Hop(i + 65)],
                );
            }
        }
    }
    f.hops.publish(Arc::new(hops));
    let mut s = 1;
    let mut rib: Rib<u32> = Rib::new();
    let mut dsts = Vec::new();
    for _ in 0..prefixes {
        let r = rng(&mut s);
        let a = ((r as u32) % 0xdf00_0000).max(0x0100_0000) & 0xffff_ff00;
        rib.insert(Prefix::new(a, 24).unwrap(), Hop(8 + (r >> 40) as u32 % 64));
        dsts.push(a | 5);
    }
    let engine = u32::engine(&std::env::var("ENGINE").unwrap_or("dir-24-8".into())).unwrap();
    let w = (engine.build)(&rib, &Options::default(), &domain).unwrap();
    struct One;
    impl lookup::lpm::Lpm<u128> for One {
        fn lookup(&self, d: u128) -> Hop {
            Hop(8 + (d as u32 >> 3) % 64)
        }
        fn lookup_batch(&self, d: &[u128], h: &mut [Hop]) {
            d.iter().zip(h).for_each(|(d, h)| *h = self.lookup(*d));
        }
        fn bytes(&self) -> usize {
            0
        }
    }
    f.vrfs.publish(vec![Vrf { v4: w.table(), v6: Arc::new(One) }]);
    let (to_kernel, mut kernel) = frames::ring(1 << 20);
    let (_to_router, from_kernel) = frames::ring(1 << 16);
    let parts = Parts {
        forwarding: f.clone(),
        counters: IfaceCounters::new(),
        hasher: wire::flow::Hasher::new(3),
        rates: Rates::default(),
        to_kernel,
        from_kernel,
        ports: 2,
        remotes: vec![],
        from_workers: vec![],
    };
    let mut graph = router(parts).build(0).unwrap();
    let config = PoolConfig { packets, ..PoolConfig::default() };
    let mut s2 = 9;
    let mode2 = mode.clone();
    let fill = move |_: usize, room: &mut [u8]| {
        let r = rng(&mut s2);
        let d = dsts[r as usize % dsts.len()];
        if mode2 == "v6" {
            let src: std::net::SocketAddrV6 = "[2001:db8:9::7]:4000".parse().unwrap();
            let dst =
                std::net::SocketAddrV6::new((0x2001_0db8u128 << 96 | d as u128).into(), 53, 0, 0);
            return Frame::udp6(src, dst)
                .macs(Mac([2; 6]), Mac(mac))
                .pad_to(64)
                .emit(room)
                .unwrap();
        }
        let dst = std::net::SocketAddrV4::new(d.into(), 53);
        let src = std::net::SocketAddrV4::new([198, 51, 100, 7].into(), r as u16);
        let bad = mode2 == "bad" && r >> 33 & 7 == 0;
        let frame = Frame::udp4(src, dst).macs(Mac([2; 6]), Mac(mac)).pad_to(60);
        if bad { frame.wrong_ip_checksum() } else { frame }.emit(room).unwrap()
    };
    let ring = Ring::new(&config, 1, fill).unwrap();
    let pool = Pool::new(&PoolConfig { packets: 1024, ..PoolConfig::default() }).unwrap();
    let mut devices = Vec::new();
    for n in 0..2 {
        let mut d = RingDevice::new("m", mac, n, std::slice::from_ref(&ring), &pool);
        let mut port = d.start(1).unwrap().remove(0);
        port.attach(0);
        graph.ports().set(n, port);
        devices.push(d);
    }
    let mut thread = domain.register("bench");
    // core cycles per tsc: dependent adds
    let chain = || {
        let t = graph::clock::now();
        let mut x = 3u64;
        for _ in 0..100_000u32 {
            unsafe {
                std::arch::asm!("imul {0}, {0}", "imul {0}, {0}", "imul {0}, {0}", "imul {0}, {0}", inout(reg) x)
            }
        }
        std::hint::black_box(x);
        1_200_000.0 / (graph::clock::now() - t) as f64
    };
    let mut slices = Vec::new();
    let mut per: Vec<Vec<f64>> = vec![Vec::new(); 20];
    let mut last: Vec<(u64, u64)> = vec![(0, 0); 20];
    let nslices: usize = std::env::var("SLICES").map_or(400, |s| s.parse().unwrap());
    let mut ratio = Vec::new();
    let per_slice = 30_000;
    for _ in 0..nslices {
        ring.each(|_, f| {
            if f[12] == 8 {
                let o = 14;
                f[o + 8] = 64;
                f[o + 10] = 0;
                f[o + 11] = 0;
                let bad = false;
                let c = wire::checksum::checksum(&f[14..34]);
                if !bad {
                    f[24..26].copy_from_slice(&c.to_be_bytes());
                }
            } else {
                f[14 + 7] = 64;
            }
        })
        .unwrap();
        ratio.push(chain());
        let t = graph::clock::now();
        let mut n = 0;
        while n < per_slice {
            n += graph.poll(thread.guard());
            thread.quiesce();
        }
        slices.push((graph::clock::now() - t) as f64 / n as f64);
        let snap = graph.stats().snapshot();
        let mut now: Vec<(u64, u64)> = vec![(snap.receive.packets, snap.receive.cycles)];
        now.extend(snap.nodes.iter().map(|n| (n.packets, n.cycles)));
        for (i, (p, c)) in now.iter().enumerate() {
            if p - last[i].0 > 0 {
                per[i].push((c - last[i].1) as f64 / (p - last[i].0) as f64);
            }
            last[i] = (*p, *c);
        }
        while kernel.pop(|_, _| ()).is_some() {}
    }
    ratio.sort_by(f64::total_cmp);
    slices.sort_by(f64::total_cmp);
    let (r, m, b) = (ratio[ratio.len() * 9 / 10], slices[slices.len() / 4], slices[0]);
    println!(
        "{mode} {packets}: core/tsc {r:.3}; quartile {:.1} core cycles/packet ({m:.1} tsc), best {:.1}",
        m * r,
        b * r
    );
    let snap = graph.stats().snapshot();
    for (i, v) in per.iter_mut().enumerate() {
        if !v.is_empty() {
            v.sort_by(f64::total_cmp);
            let name = if i == 0 { "receive" } else { snap.nodes[i - 1].name };
            print!("{name} {:.1}  ", v[v.len() / 4] * r);
        }
    }
    println!();
    if std::env::var("DRAW").is_ok() {
        println!("{}", snap.draw());
    }
    assert!(snap.law.holds());
}

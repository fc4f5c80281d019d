//! How fast a full table comes in: by hand, in a release build, as root:
//! `cargo test --release -p feeds --test converge -- --ignored --nocapture`.

mod namespace;

use std::time::{Duration, Instant};

use feeds::netlink::Mirror;
use lookup::sync::Domain;
use namespace::{in_namespace, ip, ip_batch};
use tables::{Control, FibConfig, Iface, Limits, VrfConfig};

/// A million routes are in the kernel already: from the first message read to
/// the last route in the data plane.
#[test]
#[ignore = "a measurement"]
fn a_million_routes_listed() {
    in_namespace(|| {
        setup();
        let routes: String =
            prefixes().map(|net| format!("route add {net} via 10.0.0.2\n")).collect();
        let start = Instant::now();
        ip_batch(&routes);
        println!("ip -batch: {:.1} s", start.elapsed().as_secs_f64());
        for engine in ["dir-24-8", "rutter4"] {
            let mut control = control(engine);
            let mut mirror = Mirror::open(64 << 20).unwrap();
            let (start, cpu) = (Instant::now(), on_cpu());
            let mut in_tables = Duration::ZERO;
            mirror
                .poll(Duration::ZERO, &mut |events| {
                    let start = on_cpu();
                    control.handle(events);
                    in_tables += on_cpu() - start;
                })
                .unwrap();
            let took = start.elapsed().as_secs_f64();
            let fib = &control.fibs()[0];
            println!(
                "{engine}: {} routes in {took:.2} s, {:.0} a second; {:.2} s on the processor, \
                 {:.2} s of it in the tables; rss {} MiB",
                fib.routes,
                fib.routes as f64 / took,
                (on_cpu() - cpu).as_secs_f64(),
                in_tables.as_secs_f64(),
                rss() >> 20,
            );
            assert!(fib.routes >= ROUTES as u64);
            let (start, cpu) = (Instant::now(), on_cpu());
            mirror.resync();
            mirror.poll(Duration::ZERO, &mut |events| control.handle(events)).unwrap();
            let (took, cpu) = (start.elapsed().as_secs_f64(), (on_cpu() - cpu).as_secs_f64());
            println!("{engine}: compared again in {took:.2} s, {cpu:.2} s on the processor");
            let (start, cpu) = (Instant::now(), on_cpu());
            ip("link set p0 down");
            while control.fibs()[0].routes > 100 {
                mirror
                    .poll(Duration::from_millis(10), &mut |events| control.handle(events))
                    .unwrap();
                assert!(start.elapsed() < Duration::from_secs(30));
            }
            let (took, cpu) = (start.elapsed().as_secs_f64(), (on_cpu() - cpu).as_secs_f64());
            println!("{engine}: all out {took:.2} s after the link went down ({cpu:.2} s)");
            ip("link set p0 up");
            if engine == "dir-24-8" {
                ip_batch(&routes);
            }
        }
    });
}

/// Routes that come one by one while the mirror listens: `ip -batch` sets the pace.
#[test]
#[ignore = "a measurement"]
fn a_million_routes_one_by_one() {
    in_namespace(|| {
        setup();
        let routes: String =
            prefixes().map(|net| format!("route add {net} via 10.0.0.2\n")).collect();
        let mut control = control("dir-24-8");
        let mut mirror = Mirror::open(256 << 20).unwrap();
        mirror.poll(Duration::ZERO, &mut |events| control.handle(events)).unwrap();
        let file = std::env::temp_dir().join(format!("converge-{}.batch", std::process::id()));
        std::fs::write(&file, routes).unwrap();
        let (start, cpu) = (Instant::now(), on_cpu());
        let mut child = std::process::Command::new("ip").arg("-batch").arg(&file).spawn().unwrap();
        let (mut batch, mut done) = (0.0, false);
        while !done || control.fibs()[0].routes < ROUTES as u64 {
            mirror.poll(Duration::from_millis(10), &mut |events| control.handle(events)).unwrap();
            if !done && child.try_wait().unwrap().is_some() {
                (batch, done) = (start.elapsed().as_secs_f64(), true);
            }
            assert!(start.elapsed() < Duration::from_secs(200), "{:?}", mirror.counters());
        }
        child.wait().unwrap();
        std::fs::remove_file(file).unwrap();
        println!(
            "ip -batch {batch:.1} s; the last route {:.2} s later, {:.2} s on the processor; {:?}",
            start.elapsed().as_secs_f64() - batch,
            (on_cpu() - cpu).as_secs_f64(),
            mirror.counters(),
        );
    });
}

fn setup() {
    for command in [
        "link add p0 type veth peer name p0x",
        "link set p0 up",
        "link set p0x up",
        "address add 10.0.0.1/24 dev p0",
        "neigh add 10.0.0.2 lladdr 04:00:00:00:00:02 dev p0 nud permanent",
    ] {
        ip(command);
    }
}

fn control(engine: &str) -> Control {
    let v4 = FibConfig { engine: Some(engine.into()), ..FibConfig::default() };
    let config = VrfConfig { v4, ..VrfConfig::default() };
    let mut control = Control::new(&Domain::new(), Limits::default(), &config).unwrap();
    control.add_iface(Iface { name: "p0".into(), ..Iface::default() }).unwrap();
    control
}

/// A million /24, spread.
fn prefixes() -> impl Iterator<Item = String> {
    (0..ROUTES).map(|i| {
        let i = i.wrapping_mul(2_654_435_761) % (100 << 16);
        format!("{}.{}.{}.0/24", 20 + (i >> 16), (i >> 8) & 255, i & 255)
    })
}

/// Time that this thread ran: the machine may be busy with other things.
fn on_cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

fn rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = status.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

const ROUTES: usize = 1_000_000;

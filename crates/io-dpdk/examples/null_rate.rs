//! What a packet costs on net_null, with its header read and written as a
//! router's nodes do: `null_rate [huge|small]`. Prints
//! nanoseconds of processor time a packet: median and least of 41 slices.

use io::{BURST, Burst};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hugepages = match std::env::args().nth(1).as_deref() {
        Some("huge") => Some(true),
        Some("small") => Some(false),
        _ => None,
    };
    io_dpdk::init(&io_dpdk::Config { hugepages, ..Default::default() })?;
    let mut device = io_dpdk::open("net_null0")?;
    let mut port = device.start(1)?.remove(0);
    port.attach(0);
    let mut burst = Burst::new();
    let mut slices: Vec<f64> = (0..41).map(|_| slice(&mut *port, &mut burst)).collect();
    slices.sort_by(f64::total_cmp);
    let hugepages = io_dpdk::status().and_then(|status| status.hugepages);
    let (median, least) = (slices[slices.len() / 2], slices[0]);
    println!("hugepages {hugepages:?}: median {median:.2}, least {least:.2} ns a packet");
    Ok(())
}

/// A slice of 320,000 packets.
fn slice(port: &mut dyn io::Port, burst: &mut Burst) -> f64 {
    let (mut packets, mut sum) = (0, 0u64);
    let start = processor_ns();
    while packets < 320_000 {
        burst.clear();
        let n = port.receive(burst, BURST);
        for pass in 0..3 {
            for data in burst.frames(0).iter_mut() {
                sum += u64::from(data[14 + pass]) + u64::from(data[30]);
                data[22 + pass] = data[22 + pass].wrapping_sub(1);
            }
        }
        let out = burst.packets();
        let sent = port.transmit(out);
        port.free(&mut out[sent..]);
        packets += n;
    }
    std::hint::black_box(sum);
    (processor_ns() - start) as f64 / packets as f64
}

/// Of this thread: others on the machine count less.
fn processor_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills in the struct.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

//! What clients send at a pace, and what reaches the server.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;
use std::time::{Duration, Instant};

use super::net::{Net, SERVER, connect};

/// What was sent and what came, in bytes of TCP or packets of UDP.
#[derive(Default)]
pub(super) struct Stream {
    pub sent: AtomicU64,
    pub came: AtomicU64,
}

/// Until `now` says so again, at most `per_s` a second in steps: how many are due.
struct Pace {
    since: Instant,
    done: u64,
    per_s: f64,
}

impl Pace {
    fn new(per_s: f64) -> Pace {
        Pace { since: Instant::now(), done: 0, per_s }
    }

    /// What was missed for longer than a moment is not made up for.
    fn due(&mut self) -> u64 {
        let all = (self.since.elapsed().as_secs_f64() * self.per_s) as u64;
        let most = (self.per_s * MOST_LATE.as_secs_f64()) as u64 + 1;
        let due = all.saturating_sub(self.done).min(most);
        self.done = all;
        due
    }
}

/// The server, until `stop`: takes all that comes by TCP, by port. Says `ready` once it listens.
pub(super) fn serve(
    net: &Net,
    streams: &[(u16, Arc<Stream>)],
    (ready, stop): (&AtomicBool, &AtomicBool),
) -> Result<(), String> {
    let said = |error: std::io::Error| error.to_string();
    net.enter_server()?;
    let listen = |(port, stream): &(u16, Arc<Stream>)| {
        let listener = TcpListener::bind(SocketAddrV4::new(SERVER, *port))?;
        listener.set_nonblocking(true)?;
        Ok((listener, stream.clone()))
    };
    let listeners: Vec<_> = streams.iter().map(listen).collect::<Result<_, _>>().map_err(said)?;
    ready.store(true, Relaxed);
    thread::scope(|scope| {
        while !stop.load(Relaxed) {
            for (listener, stream) in &listeners {
                while let Ok((connection, _)) = listener.accept() {
                    scope.spawn(move || take(connection, stream, stop));
                }
            }
            thread::sleep(STEP);
        }
    });
    Ok(())
}

fn take(mut connection: TcpStream, stream: &Stream, stop: &AtomicBool) {
    let mut buffer = [0; 1 << 16];
    let timed = connection.set_nonblocking(false);
    let timed = timed.and_then(|()| connection.set_read_timeout(Some(Duration::from_millis(200))));
    while timed.is_ok() && !stop.load(Relaxed) {
        match connection.read(&mut buffer) {
            Ok(0) => return,
            Ok(n) => _ = stream.came.fetch_add(n as u64, Relaxed),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

/// Sends by TCP from `from`, `bytes_per_s` of payload, until `stop`; a connection that is lost
/// is made anew: what does not come meanwhile is missing from what came.
pub(super) fn tcp(
    net: &Net,
    (from, port): (Ipv4Addr, u16),
    bytes_per_s: f64,
    (stream, stop): (&Stream, &AtomicBool),
) -> Result<(), String> {
    net.enter_clients()?;
    while !stop.load(Relaxed) {
        let sent = connect(from, port).and_then(|(connection, _)| {
            let sent = send(connection, bytes_per_s, (stream, stop));
            sent.map_err(|error| format!("{from}: {error}"))
        });
        if let Err(reason) = sent {
            eprintln!("gatekeeper/goodput: {reason}");
        }
    }
    Ok(())
}

fn send(
    mut connection: TcpStream,
    bytes_per_s: f64,
    (stream, stop): (&Stream, &AtomicBool),
) -> std::io::Result<()> {
    connection.set_write_timeout(Some(Duration::from_secs(1)))?;
    let (mut pace, data) = (Pace::new(bytes_per_s), [7; 1 << 16]);
    while !stop.load(Relaxed) {
        let due = (pace.due() as usize).min(data.len());
        match connection.write(&data[..due]) {
            Ok(n) => _ = stream.sent.fetch_add(n as u64, Relaxed),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        thread::sleep(STEP);
    }
    Ok(())
}

/// Sends by UDP from `from`, `per_s` packets of `len` bytes, until `stop`; those that the
/// first ones are lost with, before they are granted, too.
pub(super) fn udp(
    net: &Net,
    (from, port): (Ipv4Addr, u16),
    (per_s, len): (f64, usize),
    (stream, stop): (&Stream, &AtomicBool),
) -> Result<(), String> {
    let said = |error: std::io::Error| format!("{from}: {error}");
    net.enter_server()?;
    let server = UdpSocket::bind(SocketAddrV4::new(SERVER, port)).map_err(said)?;
    server.set_read_timeout(Some(Duration::from_millis(100))).map_err(said)?;
    net.enter_clients()?;
    let client = UdpSocket::bind(SocketAddrV4::new(from, port)).map_err(said)?;
    client.connect(SocketAddrV4::new(SERVER, port)).map_err(said)?;
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 2_048];
            while !stop.load(Relaxed) {
                if server.recv(&mut buffer).is_ok() {
                    stream.came.fetch_add(1, Relaxed);
                }
            }
        });
        let (mut pace, data) = (Pace::new(per_s), vec![7; len]);
        while !stop.load(Relaxed) {
            for _ in 0..pace.due() {
                if client.send(&data).is_ok() {
                    stream.sent.fetch_add(1, Relaxed);
                }
            }
            thread::sleep(STEP);
        }
    });
    Ok(())
}

/// Between two looks at the clock.
const STEP: Duration = Duration::from_millis(2);
const MOST_LATE: Duration = Duration::from_millis(50);

//! The client of the demo's shield: loads a page again and again.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use super::{PAGE, SERVER, WEB};
use crate::error::Error;
use crate::status::Status;

/// The measurements of a client.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Loads {
    /// Pages that came whole.
    pub pages: u64,
    /// Connections that ended before.
    pub failed: u64,
    /// Microseconds until the first page was there.
    pub first: u64,
    /// Microseconds of the median page, from its connection on.
    pub median: u64,
    /// Microseconds of the slowest page after the first.
    pub worst: u64,
}

impl Loads {
    /// The output of [`load`].
    pub fn parse(text: &str) -> Option<Loads> {
        let numbers: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
        let [pages, failed, first, median, worst] = numbers.ok()?.try_into().ok()?;
        Some(Loads { pages, failed, first, median, worst })
    }
}

impl std::fmt::Display for Loads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Loads { pages, failed, first, median, worst } = self;
        write!(f, "{pages} {failed} {first} {median} {worst}")
    }
}

/// Loads the page from the address `from` for some seconds, and until it has come once, but at
/// most [`FIRST`]; prints what came of it.
///
/// # Errors
/// When there is no socket.
pub fn load(from: Ipv4Addr, seconds: u64) -> Result<Status, Error> {
    let (start, all) = (Instant::now(), Duration::from_secs(seconds));
    let (mut took, mut loads) = (Vec::new(), Loads::default());
    let goes_on = |first| start.elapsed() < if first == 0 { FIRST } else { all };
    while goes_on(loads.first) {
        let begin = Instant::now();
        match once(from) {
            Ok(()) if loads.first == 0 => loads.first = micros(start),
            Ok(()) => took.push(micros(begin)),
            Err(_) => loads.failed += 1,
        }
        std::thread::sleep(BETWEEN);
    }
    took.sort_unstable();
    loads.pages = took.len() as u64 + u64::from(loads.first > 0);
    loads.median = took.get(took.len() / 2).copied().unwrap_or(loads.first);
    loads.worst = took.last().copied().unwrap_or(loads.first);
    println!("{loads}");
    Ok(Status::Success)
}

fn micros(since: Instant) -> u64 {
    since.elapsed().as_micros() as u64
}

fn once(from: Ipv4Addr) -> std::io::Result<()> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&socket, &SocketAddrV4::new(from, 0))?;
    // A first segment that is lost is sent again after 1, 3 and 7 s.
    set_socket_timeout(&socket, Timeout::Send, Some(FIRST))?;
    connect(&socket, &SocketAddrV4::new(SERVER, WEB))?;
    let mut server = TcpStream::from(socket);
    server.set_read_timeout(Some(PATIENCE))?;
    server.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut page = Vec::new();
    server.read_to_end(&mut page)?;
    if page.len() < PAGE {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

/// Between two pages.
const BETWEEN: Duration = Duration::from_millis(20);
/// For the first page.
const FIRST: Duration = Duration::from_secs(20);
/// The longest wait for a page.
const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_prints_is_read() {
        let loads = Loads { pages: 1, failed: 2, first: 3, median: 4, worst: 5 };
        assert_eq!(Loads::parse(&format!("{loads}\n")), Some(loads));
        assert_eq!(Loads::parse("1 2 3"), None);
        assert_eq!(Loads::parse("1 2 3 4 x"), None);
    }
}

//! Frames that the kernel had for an `af_packet` device while its ring was full:
//! DPDK's driver does not report them (22.11), so the kernel is asked, socket by socket.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

/// The frames missed by the sockets that a driver has bound to one interface.
pub(crate) struct Missed {
    netdev: u32,
    /// The kernel begins anew with each question.
    so_far: AtomicU64,
}

impl Missed {
    /// Of the device `name` above the interface `netdev`; nothing for drivers that count.
    pub(crate) fn of(name: &str, netdev: u32) -> Option<Missed> {
        let counts = !name.starts_with("net_af_packet") || netdev == 0;
        (!counts).then(|| Missed { netdev, so_far: AtomicU64::new(0) })
    }

    /// All since the last [`Missed::restart`]. For one thread at a time, and not
    /// while the device is closed: it goes by the numbers of open files.
    pub(crate) fn count(&self) -> u64 {
        let files = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        let numbers = files.filter_map(|file| file.file_name().to_str()?.parse().ok());
        let ours = numbers.filter(|&file| bound_to(file) == Some(self.netdev));
        let more: u64 = ours.map(take_drops).sum();
        self.so_far.fetch_add(more, Ordering::Relaxed) + more
    }

    /// Begins at 0.
    pub(crate) fn restart(&self) {
        self.count();
        self.so_far.store(0, Ordering::Relaxed);
    }
}

/// The interface that a packet socket is bound to; `None` for other files.
fn bound_to(file: c_int) -> Option<u32> {
    // SAFETY: an address is plain bits; all zero is one of no family.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    let mut len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: writes at most `len` bytes; of a file that is no socket, or closed, none.
    let answer = unsafe { libc::getsockname(file, (&raw mut address).cast(), &raw mut len) };
    let is_packet = c_int::from(address.sll_family) == libc::AF_PACKET;
    (answer == 0 && is_packet).then_some(address.sll_ifindex as u32)
}

/// What a packet socket has dropped since it was last asked.
fn take_drops(file: c_int) -> u64 {
    // `struct tpacket_stats_v3`: packets, drops, freezes; older rings have the first two.
    let mut stats = [0u32; 3];
    let mut len = size_of_val(&stats) as libc::socklen_t;
    let (level, name) = (libc::SOL_PACKET, libc::PACKET_STATISTICS);
    // SAFETY: writes at most `len` bytes. Where it fails, the zeros stay.
    unsafe { libc::getsockopt(file, level, name, stats.as_mut_ptr().cast(), &raw mut len) };
    stats[1].into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    const LOOPBACK: u32 = 1;

    /// A packet socket on the loopback interface that has room for hardly anything.
    fn full_socket() -> std::io::Result<OwnedFd> {
        let every = 3u16.to_be(); // ETH_P_ALL
        // SAFETY: takes numbers only.
        let file = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, every.into()) };
        if file < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: just opened, and nobody else's.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        // SAFETY: as in `bound_to`.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = every;
        address.sll_ifindex = LOOPBACK as i32;
        let len = size_of_val(&address) as libc::socklen_t;
        // SAFETY: reads `len` bytes of the address.
        let bound = unsafe { libc::bind(file.as_raw_fd(), (&raw const address).cast(), len) };
        assert_eq!(bound, 0);
        let (room, len) = (1i32, size_of::<i32>() as libc::socklen_t);
        let (level, name) = (libc::SOL_SOCKET, libc::SO_RCVBUF);
        // SAFETY: reads `len` bytes of the number.
        let set = unsafe {
            libc::setsockopt(file.as_raw_fd(), level, name, (&raw const room).cast(), len)
        };
        assert_eq!(set, 0);
        Ok(file)
    }

    #[test]
    fn what_a_full_socket_misses_is_counted_once() {
        let _socket = match full_socket() {
            Ok(socket) => socket,
            Err(error) => return testing::skip(format_args!("no packet socket: {error}")),
        };
        let missed = Missed::of("net_af_packet0", LOOPBACK).unwrap();
        missed.restart();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..100 {
            sender.send_to(&[0; 1000], sender.local_addr().unwrap()).unwrap();
        }
        let count = missed.count();
        assert!(count >= 90, "{count}");
        assert!(missed.count() >= count, "what was reported stays");
        let other = Missed { netdev: u32::MAX, so_far: AtomicU64::new(0) };
        assert_eq!(other.count(), 0);
    }

    #[test]
    fn drivers_that_count_are_not_asked_twice() {
        assert!(Missed::of("net_af_xdp0", 3).is_none());
        assert!(Missed::of("net_pcap0", 3).is_none());
        assert!(Missed::of("net_af_packet0", 0).is_none());
    }
}

//! `packet:IFACE`: any network interface of Linux as a port, by packet sockets, as fast as
//! the kernel allows.
//!
//! ```text
//!  interface ─► fan-out by flow ─┬► ring 0 ─► queue 0 ─► worker 0 ─► socket ─► interface
//!                                └► ring 1 ─► queue 1 ─► worker 1 ─► socket ─┘
//! ```
//!
//! On request ([`Device::deal_by_pair`]) it fans out by pair, by a program in the kernel
//! (`fanout`).
//!
//! The port undoes the kernel's changes to frames: it reinserts a removed VLAN tag with its
//! own type, computes checksums that the kernel left to a network card, and cuts large frames
//! into their segments (`offload`), which it joins again at the exit (`gather`). Fragments
//! stay unjoined: only the fan-out's option `DEFRAG` would join them.
//!
//! | cost | a copy each way; receiving no system call, sending one for up to 64 frames |
//! |------|------------------------------------------------------------------------------|
//! | idle | the worker sleeps in `ppoll` on the sockets ([`Port::wakes`]) |
//!
//! Frames leave through the interface's queueing discipline: `tc` shapes them, `tcpdump`
//! there sees them, and what it drops is counted. `packet:IFACE,direct` sends past it.
//!
//! Source: packet(7); Documentation/networking/packet_mmap.rst of Linux.

mod fanout;
mod gather;
mod offload;
mod outbox;
mod port;
mod ring;
mod socket;

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::netdev::Interfaces;
use crate::tally::Tally;
use crate::{ByPair, Counters, Device, Error, Link, Pool, Port, Spread};
use fanout::Group;
use outbox::{Outbox, SENT};
use port::{Large, Queue};
use ring::{RECEIVED, Ring, Shape};
use socket::Socket;

/// The device `packet:IFACE`. The interface's own MTU is not changed: its administrator must raise
/// it if frames of the port's MTU do not fit.
pub struct AfPacket {
    name: String,
    index: u32,
    mac: [u8; 6],
    mtu: u16,
    direct: bool,
    interfaces: Interfaces,
    pool: Pool,
    tallies: Arc<[Tally]>,
    /// By queue, while it runs.
    receivers: Vec<Arc<Socket>>,
    /// The kernel's counts so far: each answer of the kernel starts again at 0.
    missed: AtomicU64,
    /// The value when the link came up: the query takes a lock that routes take, too.
    speed_mbps: AtomicU32,
    /// As requested.
    by_pair: Option<ByPair>,
    /// As granted.
    spread: Spread,
}

/// Whether this process may open packet sockets here.
///
/// # Errors
/// Why not.
pub fn packet_sockets() -> io::Result<()> {
    Socket::open().map(|_| ())
}

impl AfPacket {
    /// The interface `name`, which sends past its queueing discipline if `direct`.
    ///
    /// # Errors
    /// When there is none, it is not Ethernet, or the right to packet sockets is missing.
    pub fn open(name: &str, direct: bool, pool: &Pool) -> Result<AfPacket, Error> {
        let refused = |error: io::Error| Error::refused(name, "open", error);
        let interfaces = Interfaces::open().map_err(refused)?;
        let index = interfaces.index(name).map_err(refused)?;
        let no_ethernet = "it is no Ethernet interface, as ports are";
        let mac = interfaces.mac(name).map_err(refused)?;
        let mac = mac.ok_or_else(|| Error::refused(name, "open", no_ethernet))?;
        Socket::open().map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => {
                let hint = format!("{error} (needs root, or CAP_NET_RAW)");
                Error::refused(name, "open", hint)
            }
            _ => refused(error),
        })?;
        Ok(AfPacket {
            name: name.to_owned(),
            index,
            mac,
            mtu: 1500,
            direct,
            interfaces,
            pool: pool.clone(),
            tallies: (0..MAX_QUEUES).map(|_| Tally::default()).collect(),
            receivers: Vec::new(),
            missed: AtomicU64::new(0),
            speed_mbps: AtomicU32::new(NOT_ASKED),
            by_pair: None,
            spread: Spread::Unknown,
        })
    }

    /// Its name now; an error where it is gone.
    fn current_name(&self) -> io::Result<String> {
        self.interfaces.name(self.index)
    }

    /// A socket with its ring, which receives, and the number of the fan-out: that of the sockets
    /// before it, or a new one.
    fn receiver(&self, group: Option<Group>) -> io::Result<(Socket, Ring)> {
        let shape = Shape::new(usize::from(self.mtu) + LINK_HEADERS, RECEIVED);
        let socket = Socket::open()?;
        socket.set_room(ROOM);
        socket.set(libc::PACKET_VERSION, TPACKET_V2)?;
        socket.set(libc::PACKET_VNET_HDR, 1)?;
        socket.set(libc::PACKET_COPY_THRESH, 1)?;
        // Kernels before 4.20 lack this option; such frames are skipped then.
        let _ = socket.set(libc::PACKET_IGNORE_OUTGOING, 1);
        socket.set(libc::PACKET_RX_RING, shape.request())?;
        let ring = Ring::map(socket.as_fd(), shape)?;
        socket.bind(self.index, true)?;
        if let Some(group) = group {
            group.join(&socket)?;
        }
        Ok((socket, ring))
    }

    /// A socket that sends by a ring.
    fn sender(&self) -> io::Result<(Socket, Outbox)> {
        let shape = Shape::new(usize::from(self.mtu) + LINK_HEADERS, SENT);
        let socket = Socket::open()?;
        socket.set_room(ROOM);
        socket.set(libc::PACKET_VERSION, TPACKET_V2)?;
        socket.set(libc::PACKET_VNET_HDR, 1)?;
        if self.direct {
            socket.set(libc::PACKET_QDISC_BYPASS, 1)?;
        }
        socket.set(libc::PACKET_TX_RING, shape.request())?;
        let ring = Ring::map(socket.as_fd(), shape)?;
        socket.bind(self.index, false)?;
        Ok((socket, Outbox::new(ring)))
    }

    /// A socket that sends frames for many. Past the queueing discipline the kernel cuts none;
    /// beside it they would overtake other frames.
    fn joiner(&self) -> io::Result<Option<Socket>> {
        if self.direct {
            return Ok(None);
        }
        let socket = Socket::open()?;
        socket.set_room(ROOM);
        socket.set(libc::PACKET_VNET_HDR, 1)?;
        socket.bind(self.index, false)?;
        Ok(Some(socket))
    }

    fn queues(&self, queues: u16) -> io::Result<(Vec<(Socket, Ring)>, Spread)> {
        let first = self.receiver(None)?;
        // One membership serves all sockets: the first requests it, and it ends when that is closed.
        first.0.set(
            libc::PACKET_ADD_MEMBERSHIP,
            libc::packet_mreq {
                mr_ifindex: self.index as i32,
                mr_type: libc::PACKET_MR_PROMISC as u16,
                mr_alen: 0,
                mr_address: [0; 8],
            },
        )?;
        let (group, spread) = match (queues, &self.by_pair) {
            (..=1, _) => (None, Spread::Unknown),
            (_, Some(by)) => match Group::by_pair(&first.0, by, queues) {
                Ok((group, true)) => (Some(group), Spread::ByPair(by.clone())),
                Ok((group, false)) => (Some(group), Spread::Unknown),
                // Kernels before 4.3 have no programs for it.
                Err(_) => (Some(Group::by_flow(&first.0)?), Spread::ByFlow),
            },
            (_, None) => (Some(Group::by_flow(&first.0)?), Spread::ByFlow),
        };
        let mut all = vec![first];
        for _ in 1..queues {
            all.push(self.receiver(group)?);
        }
        // Before all sockets were together, each had its own copy of a frame.
        all.iter_mut().for_each(|(socket, ring)| ring.flush(socket));
        Ok((all, spread))
    }
}

impl Device for AfPacket {
    fn name(&self) -> &str {
        &self.name
    }

    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    fn max_queues(&self) -> u16 {
        MAX_QUEUES as u16
    }

    fn deal_by_pair(&mut self, by: &ByPair) {
        self.by_pair = Some(by.clone());
    }

    fn spread(&self) -> Spread {
        self.spread.clone()
    }

    fn start(&mut self, queues: u16) -> Result<Vec<Box<dyn Port>>, Error> {
        if queues == 0 || queues > self.max_queues() {
            return Err(Error::queues(&self.name, queues, self.max_queues()));
        }
        let refused = |error: io::Error| Error::refused(&self.name, "start", error);
        let (receivers, spread) = self.queues(queues).map_err(refused)?;
        self.spread = spread;
        let mut ports: Vec<Box<dyn Port>> = Vec::new();
        for (number, (receiver, ring)) in receivers.into_iter().enumerate() {
            let receiver = Arc::new(receiver);
            receiver.take_missed(); // frames before the start do not count
            self.receivers.push(receiver.clone());
            let (sender, outbox) = self.sender().map_err(refused)?;
            let joiner = self.joiner().map_err(refused)?;
            ports.push(Box::new(Queue {
                receiver,
                ring,
                sender,
                outbox,
                joiner,
                large: Large::new(),
                pool: self.pool.clone(),
                tallies: self.tallies.clone(),
                number,
            }));
        }
        Ok(ports)
    }

    fn set_mtu(&mut self, mtu: u16) -> Result<(), Error> {
        Error::check_mtu(&self.name, mtu, self.pool.room())?;
        if !self.receivers.is_empty() && mtu > self.mtu {
            let reason = format!("its ring is for {}; set it before the start", self.mtu);
            return Err(Error::refused(&self.name, "set MTU", reason));
        }
        self.mtu = mtu;
        Ok(())
    }

    fn link(&self) -> Link {
        let Ok(name) = self.current_name() else { return Link::default() };
        if !self.interfaces.running(&name).unwrap_or(false) {
            self.speed_mbps.store(NOT_ASKED, Ordering::Relaxed);
            return Link::default();
        }
        let mut speed_mbps = self.speed_mbps.load(Ordering::Relaxed);
        if speed_mbps == NOT_ASKED {
            speed_mbps = self.interfaces.speed_mbps(&name);
            self.speed_mbps.store(speed_mbps, Ordering::Relaxed);
        }
        Link { up: true, speed_mbps }
    }

    fn counters(&self) -> Counters {
        let more = self.receivers.iter().map(|socket| socket.take_missed()).sum::<u64>();
        let missed = self.missed.fetch_add(more, Ordering::Relaxed) + more;
        Counters { rx_missed: missed, ..Tally::sum(&*self.tallies) }
    }

    fn netdev(&self) -> Option<String> {
        self.current_name().ok()
    }

    fn stop(&mut self) {
        self.counters();
        self.receivers.clear();
    }
}

const MAX_QUEUES: usize = 64;
const NOT_ASKED: u32 = u32::MAX;
const TPACKET_V2: i32 = 1;
/// Ethernet header and two tags.
const LINK_HEADERS: usize = 22;
/// Bytes that may wait in a socket: to be sent, or super-frames to be read.
const ROOM: i32 = 8 << 20;

//! Watches the links of ports: a few milliseconds after a port has lost its carrier, no route uses it.
//!
//! ```text
//!  the kernel's news of links ─┐
//!  a look every 5 ms, where  ──┴─► links ─► control, before all else: hops
//!  the kernel has none             (the monitor: log, taps' carriers, applications)
//! ```

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use netlink::connection::Netlink;
use netlink::names::RTNLGRP_LINK;
use netlink_sys::protocols::NETLINK_ROUTE;
use tables::IfaceId;

use super::state::{State, lock};
use crate::config::Device;
use crate::error::{Doing, Error};
use crate::halt::Halt;
use crate::threads::Threads;

/// The running thread.
pub struct LinkThread {
    halt: Halt,
    thread: Option<JoinHandle<()>>,
}

impl LinkThread {
    /// Starts it.
    ///
    /// # Errors
    /// When the system starts no thread.
    pub fn start(state: Arc<State>, threads: &Threads) -> Result<LinkThread, Error> {
        let halt = Halt::new().doing(|| "start the links thread".into())?;
        let theirs = halt.clone();
        let life = move || watch(&state, &theirs);
        let thread = threads.restarting("links", halt.clone(), life);
        Ok(LinkThread { halt, thread: Some(thread.doing(|| "start the links thread".into())?) })
    }
}

impl Drop for LinkThread {
    fn drop(&mut self) {
        self.halt.call();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic was logged when it happened
        }
    }
}

fn watch(state: &State, halt: &Halt) -> io::Result<()> {
    let mut news = Netlink::hear(NETLINK_ROUTE, &[RTNLGRP_LINK])?;
    let silent = |port: &super::devices::Port| {
        matches!(port.config.device, Device::Dpdk(_)) && port.netdev.is_none()
    };
    let pause = if lock(&state.ports).iter().any(silent) { OFTEN } else { PAUSE };
    // An instance that was killed may have left any state.
    let mut known = vec![None; state.config.interfaces().count()];
    while !halt.is_called() {
        for (id, on) in changed(state, &mut known) {
            state.control.first(move |control| control.set_carrier(id, on));
        }
        halt.wait_beside(news.as_fd(), Some(pause))?;
        // The message's content does not matter, not even that messages were lost: all links are
        // read again.
        let _ = news.heard();
    }
    Ok(())
}

/// Interfaces whose carrier has changed: one of their ports has a link again, or none has.
fn changed(state: &State, known: &mut [Option<bool>]) -> Vec<(IfaceId, bool)> {
    let ports = lock(&state.ports);
    let links: Vec<_> =
        ports.iter().map(|port| (port.config.name.as_str(), port.device.link().up)).collect();
    let linked = |name: &&str| links.iter().any(|(port, up)| port == name && *up);
    let interfaces = state.config.interfaces().zip(1..).zip(known);
    let changed = interfaces.filter_map(|(((carrier, tags, _), id), known)| {
        let on = carrier.ports(tags).iter().any(linked);
        (known.replace(on) != Some(on)).then_some((IfaceId(id), on))
    });
    changed.collect()
}

const PAUSE: Duration = Duration::from_millis(500);
/// Links that only the device knows.
const OFTEN: Duration = Duration::from_millis(5);

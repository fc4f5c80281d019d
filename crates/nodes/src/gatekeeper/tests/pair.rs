//! Two workers of one Gatekeeper, each with a front and a back.

use std::sync::Arc;

use graph::ring::spsc;
use graph::{Job, Progress, clock};
use io::{Pool, PoolConfig};
use lookup::sync::{Domain, Thread};
use tables::Control;

use super::super::listing::{Filter, List, State, ends};
use super::super::shield::Shield;
use super::super::solicitor::Channel;
use super::rig::{Of, Seat, control};
use crate::parse::owner::Owners;
use crate::testbed::{to_p0, udp4};

/// Two workers of one Gatekeeper.
pub(super) struct Pair {
    pub(super) seats: [Seat; 2],
    _control: Control,
    pub(super) thread: Thread,
    pub(super) owners: Arc<Owners>,
}

impl Pair {
    /// Whose rings have so many places.
    pub(super) fn new(places: usize, bytes_per_s: u64) -> Pair {
        Pair::spread(places, bytes_per_s, true)
    }

    /// The same; `known`: whether workers can work out the owner of a flow.
    pub(super) fn spread(places: usize, bytes_per_s: u64, known: bool) -> Pair {
        let domain = Domain::new();
        let control = control(&domain);
        let pool = Pool::new(&PoolConfig { packets: 4096, mtu: 9000, large_pages: false });
        let (pool, owners) = (pool.unwrap(), Arc::new(Owners::new(5, 2)));
        let of = Of {
            domain: &domain,
            control: &control,
            pool: &pool,
            owners: known.then(|| owners.clone()),
        };
        let channel = Channel::new(bytes_per_s, 2, clock::now());
        let (mut heard, mut hears) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        for from in &mut hears {
            for to in &mut heard {
                let (producer, consumer) = spsc::ring(places);
                from.push(producer);
                to.push(consumer);
            }
        }
        let mut rings = heard.into_iter().zip(hears);
        let seats = [0, 1]
            .map(|worker| of.seat(channel.member(worker), rings.next().unwrap(), 1 << 15, ""));
        Pair { seats, thread: domain.register("pair"), _control: control, owners }
    }

    pub(super) fn poll(&mut self) {
        (0..2).for_each(|worker| self.poll_one(worker));
    }

    pub(super) fn poll_one(&mut self, worker: usize) {
        self.poll_at(worker, clock::now());
    }

    pub(super) fn poll_at(&mut self, worker: usize, now: u64) {
        let seat = &mut self.seats[worker];
        // With a packet that is none of ours: an idle graph does not tick at once.
        seat.front.push(&to_p0(udp4("10.22.0.1")));
        seat.graph.poll_at(now, self.thread.guard());
        self.thread.quiesce();
    }

    /// Frees what waits.
    pub(super) fn stop(&mut self) {
        for seat in &mut self.seats {
            while seat.graph.drain(self.thread.guard()) > 0 {
                self.thread.quiesce();
            }
            assert!(seat.graph.stats().balance().holds());
        }
    }

    /// Flows of a worker in this state.
    pub(super) fn flows(&mut self, worker: usize, state: State) -> Vec<[std::net::IpAddr; 2]> {
        let node = self.seats[worker].graph.node_mut::<Shield>().unwrap();
        let mut list = List::new(Filter { state: Some(state), ..Filter::default() });
        let mut rows = Vec::new();
        loop {
            match list.step(node, 4_096) {
                Progress::More(part) => rows.extend(part),
                Progress::Last(part) => {
                    rows.extend(part);
                    return rows.iter().map(|row| ends(&row.key)).collect();
                }
            }
        }
    }
}

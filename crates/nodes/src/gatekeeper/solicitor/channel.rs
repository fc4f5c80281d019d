//! Which of several workers may send a request.
//!
//! ```text
//!  heads    worker 0 │ when │ level + 1 │   each in a line of its own, written by its worker,
//!           worker 1 │ when │ level + 1 │   read by the others once a poll
//! ```
//!
//! A worker takes tokens only while the level at its head is not below any level that another
//! worker has published. A published level counts for 200 µs, and only a worker whose back
//! port accepts packets publishes one: a stopped worker bars the others no longer than that.

use std::sync::Arc;

use super::super::times::Times;
use super::bucket::Bucket;
use super::queue::Queue;
use crate::sync::{AtomicU64, Ordering};

/// The request channel: one for all workers.
pub struct Channel {
    bucket: Bucket,
    heads: Box<[Head]>,
}

/// The level at a worker's head, and when it polled last. A line, so that its worker
/// writes without the others' lines.
#[repr(align(64))]
struct Head(AtomicU64);

/// A worker's part of the channel.
pub struct Member {
    channel: Arc<Channel>,
    worker: usize,
    /// The bucket was ahead of the clock at the last poll.
    ahead: bool,
}

/// What a poll is made with.
#[derive(Clone, Copy)]
pub struct Poll<'a> {
    /// Lengths of time.
    pub times: &'a Times,
    /// The time.
    pub now: u64,
    /// Requests to be sent at most.
    pub most: usize,
}

impl Channel {
    /// So many bytes a second for so many workers, from now on.
    pub fn new(bytes_per_s: u64, workers: usize, now: u64) -> Arc<Self> {
        let heads = (0..workers).map(|_| Head(AtomicU64::new(NOTHING))).collect();
        Arc::new(Channel { bucket: Bucket::new(bytes_per_s, now), heads })
    }

    /// The part of one worker; each has its own.
    ///
    /// # Panics
    /// When there is no such worker.
    pub fn member(self: &Arc<Self>, worker: usize) -> Member {
        assert!(worker < self.heads.len(), "worker {worker} of {}", self.heads.len());
        Member { channel: self.clone(), worker, ahead: false }
    }

    /// Bytes a second.
    pub fn bytes_per_s(&self) -> u64 {
        self.bucket.bytes_per_s()
    }

    /// The highest level, plus one, that another worker than this one published.
    fn bar(&self, worker: usize, times: &Times, now: u64) -> u64 {
        let others = self.heads.iter().enumerate().filter(|(other, _)| *other != worker);
        let level = |(_, head): (usize, &Head)| {
            let word = head.0.load(Ordering::Relaxed);
            // A time to come, by a clock that jumped, counts no longer than one gone by.
            let counts = now.abs_diff(word & !LEVEL) <= times.published();
            if counts { word & LEVEL } else { NOTHING }
        };
        others.map(level).max().unwrap_or(NOTHING)
    }
}

impl Member {
    /// Sends the requests of `queue` whose turn it is and that the budget has room for. Gives how
    /// many left the queue.
    ///
    /// `len` is a request's bytes as a frame when it is encapsulated; the channel counts
    /// [`OVERHEAD`] more. Where it is `None`, the port of the request takes nothing for now: the
    /// request is set aside, and bars nobody, until [`Queue::take_back`]. `send` says whether a
    /// request went out: the tokens of one that was dropped instead are given back. It may refuse
    /// a request, which then stays where it was, and its tokens too.
    ///
    /// To be called each poll, with an empty queue too: what the worker published is
    /// renewed, or taken back.
    pub fn poll<T>(
        &mut self,
        poll: &Poll<'_>,
        queue: &mut Queue<T>,
        len: impl FnMut(&T) -> Option<u32>,
        send: impl FnMut(u8, T) -> Result<bool, T>,
    ) -> usize {
        if queue.head().is_none() {
            self.publish(poll.now, None);
            return 0;
        }
        let (sent, takes) = self.send(poll, queue, len, send);
        self.publish(poll.now, takes.then(|| queue.head()).flatten());
        sent
    }

    /// How many left the queue, and whether the next one may be published.
    fn send<T>(
        &mut self,
        poll: &Poll<'_>,
        queue: &mut Queue<T>,
        mut len: impl FnMut(&T) -> Option<u32>,
        mut send: impl FnMut(u8, T) -> Result<bool, T>,
    ) -> (usize, bool) {
        let Poll { times, now, most, .. } = *poll;
        let bar = self.channel.bar(self.worker, times, now);
        let bucket = &self.channel.bucket;
        let made = bucket.made(times, now);
        // Only at the second look: the first may have been by an old time.
        let ahead = bucket.is_ahead(made);
        if ahead && self.ahead {
            bucket.rewind(made);
        }
        self.ahead = ahead;
        let (mut sent, mut aside) = (0, 0);
        while sent < most {
            let Some((level, item)) = queue.peek() else { return (sent, true) };
            let Some(len) = len(item) else {
                queue.set_aside();
                aside += 1;
                if aside == ASIDE {
                    return (sent, false);
                }
                continue;
            };
            let cost = u64::from(len) + OVERHEAD;
            if u64::from(level) + 1 < bar || !bucket.take(made, cost) {
                return (sent, true);
            }
            let Some((level, item)) = queue.pop() else { return (sent, true) };
            match send(level, item) {
                Ok(true) => {}
                Ok(false) => bucket.give_back(cost),
                Err(item) => {
                    bucket.give_back(cost);
                    queue.put_back(level, item); // into the slot that it came from
                    return (sent, false);
                }
            }
            sent += 1;
        }
        (sent, true)
    }

    fn publish(&self, now: u64, head: Option<u8>) {
        let head_of = &self.channel.heads[self.worker].0;
        let word = head.map_or(NOTHING, |level| (now & !LEVEL) | (u64::from(level) + 1));
        // Most polls of an idle worker leave the line to its readers.
        if word != NOTHING || head_of.load(Ordering::Relaxed) != NOTHING {
            head_of.store(word, Ordering::Relaxed);
        }
    }
}

impl Drop for Member {
    /// A worker that is gone bars nobody.
    fn drop(&mut self) {
        self.publish(0, None);
    }
}

/// What the channel counts for a frame beside its bytes: preamble, checksum, gap.
pub const OVERHEAD: u64 = 24;
/// Requests that are sent a poll, unless configured otherwise.
pub const BURST: usize = 32;

/// Requests that are set aside a poll, at most.
const ASIDE: usize = 512;

/// Of a published word: the level plus one. The rest is the time, to 128 ticks.
const LEVEL: u64 = 127;
/// No level.
const NOTHING: u64 = 0;

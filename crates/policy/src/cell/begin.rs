//! How a process is configured.

/// The numbers of a [`super::control::BEGIN`] message; the policy's name follows them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Begin {
    /// Depth of each ring.
    pub depth: u64,
    /// Bytes of a packet that the policy sees.
    pub captured: u64,
    /// The user id; above 32 bits: the daemon's.
    pub user: u64,
    /// Bytes of memory in addition to those at the start.
    pub memory: u64,
    /// The longest time of a batch, in milliseconds.
    pub limit_ms: u64,
    /// The longest time until it is ready, in milliseconds.
    pub load_ms: u64,
    /// Microseconds that it polls for questions before it sleeps; the largest number: for ever.
    pub spin_us: u64,
    /// The daemon's process id.
    pub parent: u64,
    /// Its place among the processes that live.
    pub place: u64,
}

impl Begin {
    /// The message's bytes.
    pub fn emit(&self) -> [u8; LEN] {
        let Begin { depth, captured, user, memory, limit_ms, load_ms, spin_us, parent, place } =
            *self;
        let all = [depth, captured, user, memory, limit_ms, load_ms, spin_us, parent, place];
        let mut out = [0; LEN];
        for (to, number) in out.chunks_exact_mut(8).zip(all) {
            to.copy_from_slice(&number.to_ne_bytes());
        }
        out
    }

    /// The numbers in a message's bytes, and the name behind them.
    pub fn parse(bytes: &[u8]) -> Option<(Begin, &str)> {
        let (numbers, name) = bytes.split_first_chunk::<LEN>()?;
        let mut all = numbers.as_chunks::<8>().0.iter().map(|number| u64::from_ne_bytes(*number));
        let mut next = || all.next();
        let begin = Begin {
            depth: next()?,
            captured: next()?,
            user: next()?,
            memory: next()?,
            limit_ms: next()?,
            load_ms: next()?,
            spin_us: next()?,
            parent: next()?,
            place: next()?,
        };
        Some((begin, std::str::from_utf8(name).ok()?))
    }
}

const LEN: usize = 72;

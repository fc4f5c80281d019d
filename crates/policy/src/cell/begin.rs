//! How a process is to be.

/// Numbers of a [`super::control::BEGIN`], and behind them the policy's name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Begin {
    /// Of each ring.
    pub depth: u64,
    /// Bytes of a packet.
    pub captured: u64,
    /// The user; beyond 32 bits: as the daemon.
    pub user: u64,
    /// Bytes of memory beyond what it begins with.
    pub memory: u64,
    /// Milliseconds of a batch.
    pub limit_ms: u64,
    /// Milliseconds until it is ready.
    pub load_ms: u64,
    /// Microseconds that it looks for questions before it sleeps; the largest: for ever.
    pub spin_us: u64,
    /// The daemon.
    pub parent: u64,
}

impl Begin {
    /// As bytes.
    pub fn emit(&self) -> [u8; LEN] {
        let Begin { depth, captured, user, memory, limit_ms, load_ms, spin_us, parent } = *self;
        let all = [depth, captured, user, memory, limit_ms, load_ms, spin_us, parent];
        let mut out = [0; LEN];
        for (to, number) in out.chunks_exact_mut(8).zip(all) {
            to.copy_from_slice(&number.to_ne_bytes());
        }
        out
    }

    /// From bytes, and the name behind them.
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
        };
        Some((begin, std::str::from_utf8(name).ok()?))
    }
}

const LEN: usize = 64;

//! What runs in the processes of these tests. A policy's name says which it is; a packet
//! that begins with [`BAD`] makes a hostile one do its harm.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use policy::ask::{Question, Verdict};
use policy::cell::child::{Decider, Handed, Stop};
use wire::ggu;

/// The first byte of a packet that does harm.
pub const BAD: u8 = 0xff;
/// What an honest verdict says; policies differ by the first letter of their names.
pub fn honest(id: u32, policy: &str) -> Verdict {
    let expire_s = policy.bytes().next().unwrap_or(0).into();
    Verdict { id, forward: true, decision: Some(ggu::Verdict::Declined { expire_s }) }
}

/// What a hostile packet does. An error is the policy's.
type Harm = fn(&Hostile, &[Question<'_>], &mut Vec<Verdict>) -> Result<(), String>;

const HARMS: &[(&str, Harm)] = &[
    ("loop", |policy, _, _| {
        while !policy.stopped.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        Err("loop:3: interrupted".into())
    }),
    ("deaf_loop", |_, _, _| {
        loop {
            std::hint::spin_loop();
        }
    }),
    ("slow", |_, questions, verdicts| {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(30) {
            std::hint::spin_loop();
        }
        verdicts.extend(questions.iter().map(|question| honest(question.id, "slow")));
        Ok(())
    }),
    ("error", |_, _, _| Err("error:7: attempt to index a nil value".into())),
    ("panic", |_, _, _| panic!("at the disco")),
    ("nothing", |_, _, _| Ok(())),
    ("segv", |_, _, _| {
        // SAFETY: none: it is to fail.
        unsafe { std::ptr::without_provenance_mut::<u32>(8).write_volatile(1) };
        Ok(())
    }),
    ("abort", |_, _, _| std::process::abort()),
    ("exit", |_, _, _| std::process::exit(3)),
    ("memory", |_, _, _| {
        // Taken and not touched: how long pages take is the machine's business, and a process
        // that is long at it is ended for that.
        let mut all: Vec<Vec<u8>> = Vec::new();
        loop {
            all.push(black_box(Vec::with_capacity(16 << 20)));
            black_box(&all);
        }
    }),
    ("file", |_, _, _| {
        let _ = std::fs::read("/etc/passwd");
        Ok(())
    }),
    ("socket", |_, _, _| {
        let _ = std::net::UdpSocket::bind("127.0.0.1:0");
        Ok(())
    }),
    ("fork", |_, _, _| {
        // SAFETY: it is to fail.
        unsafe { libc::fork() };
        Ok(())
    }),
    ("thread", |_, _, _| {
        let _ = std::thread::Builder::new().spawn(|| {});
        Ok(())
    }),
    ("kill", |_, _, _| {
        // SAFETY: it is to fail; nobody is signalled but to be asked whether they are there.
        unsafe { libc::kill(1, 0) };
        Ok(())
    }),
    ("trace", |_, _, _| {
        // SAFETY: it is to fail.
        unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
        Ok(())
    }),
    ("blocking", |policy, _, _| {
        // So that the worker's write to the bell would wait.
        // SAFETY: it is to fail.
        (0..16).for_each(|file| _ = unsafe { libc::fcntl(file, libc::F_SETFL, 0) });
        let _ = policy;
        Ok(())
    }),
    ("twice", |_, questions, verdicts| {
        let all = questions.iter().chain(questions);
        verdicts.extend(all.map(|question| honest(question.id, "twice")));
        Ok(())
    }),
    ("strangers", |_, questions, verdicts| {
        let all = questions.iter().map(|question| question.id.wrapping_add(77));
        verdicts.extend(all.map(|id| honest(id, "strangers")));
        Ok(())
    }),
    ("garbage", |policy, _, _| {
        let mut word = 0x9e37_79b9_7f4a_7c15_u64;
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(40) {
            word = word.rotate_left(7).wrapping_mul(0x2545_f491_4f6c_dd1d);
            policy.poke(word as usize, word);
            policy.poke(8, word);
        }
        Ok(())
    }),
    ("jump", |policy, _, _| {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(40) {
            policy.poke(8, 1 << 31);
        }
        Ok(())
    }),
    ("questions", |policy, _, _| {
        // SAFETY: none: it is to fail.
        unsafe { (policy.rings[0].0 as *mut u64).write_volatile(1) };
        Ok(())
    }),
    ("unmap", |policy, _, _| {
        let [_, (at, len)] = [policy.rings[0], policy.rings[1]];
        // SAFETY: none: what comes next is to fail.
        unsafe { libc::munmap(at as *mut libc::c_void, len) };
        Ok(())
    }),
    ("chatter", |_, _, _| {
        for file in 0..16 {
            for _ in 0..10_000 {
                // SAFETY: reads a byte.
                unsafe { libc::write(file, [0xee_u8].as_ptr().cast(), 1) };
            }
        }
        Ok(())
    }),
    ("babble", |_, questions, verdicts| {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(300) {
            for file in 0..16 {
                // SAFETY: reads three bytes: a failure, as an honest process says it.
                unsafe { libc::write(file, [67, 0, b'x'].as_ptr().cast(), 3) };
            }
        }
        verdicts.extend(questions.iter().map(|question| honest(question.id, "babble")));
        Ok(())
    }),
];

/// A policy of these tests.
pub struct Hostile {
    name: String,
    text: Vec<u8>,
    harm: Option<Harm>,
    rings: [(usize, usize); 2],
    stopped: Arc<AtomicBool>,
    asked: AtomicU64,
}

/// As its source says; one in Lua has tables by these engines.
#[cfg_attr(not(feature = "lua"), expect(unused_variables))]
pub fn make(handed: &Handed, engines: [&str; 2]) -> Result<Box<dyn Decider>, String> {
    #[cfg(feature = "lua")]
    if handed.name.starts_with("lua_") {
        return policy::cell::lua::make(handed, engines);
    }
    match &*handed.name {
        "refuse" => return Err("refuse:1: unexpected symbol".into()),
        "endless" => loop {
            std::hint::spin_loop();
        },
        "opens" => _ = std::fs::File::open("/"),
        _ => {}
    }
    let harm = HARMS.iter().find(|(name, _)| *name == handed.name).map(|(_, harm)| *harm);
    Ok(Box::new(Hostile {
        name: handed.name.clone(),
        text: handed.text().to_vec(),
        harm,
        rings: *handed.rings().first().ok_or("no rings")?,
        stopped: Arc::default(),
        asked: AtomicU64::new(0),
    }))
}

impl Decider for Hostile {
    fn decide(
        &mut self,
        questions: &[Question<'_>],
        verdicts: &mut Vec<Verdict>,
    ) -> Result<(), String> {
        self.asked.fetch_add(questions.len() as u64, Ordering::Relaxed);
        if let Some(harm) = self.harm
            && questions.iter().any(|question| question.bytes.first() == Some(&BAD))
        {
            return harm(self, questions, verdicts);
        }
        verdicts.extend(questions.iter().map(|question| honest(question.id, &self.name)));
        Ok(())
    }

    fn exec(&mut self, chunk: &str) -> Result<String, String> {
        match chunk {
            "asked" => Ok(self.asked.load(Ordering::Relaxed).to_string()),
            "text" => String::from_utf8(self.text.clone()).map_err(|error| error.to_string()),
            "fail" => Err("chunk:1: no".into()),
            "long" => Ok("x".repeat(1 << 20)),
            "loop" => {
                while !self.stopped.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                Err("chunk:1: interrupted".into())
            }
            "deaf" => loop {
                std::hint::spin_loop();
            },
            "writable" => Ok(format!("{:?}", self.rings.map(writable))),
            _ => Err("chunk:1: what?".into()),
        }
    }

    fn stopper(&self) -> Option<Stop> {
        let stopped = self.stopped.clone();
        Some(Box::new(move || stopped.store(true, Ordering::Relaxed)))
    }

    fn resume(&mut self) {
        self.stopped.store(false, Ordering::Relaxed);
    }
}

impl Hostile {
    /// Writes anywhere into the verdicts' memory.
    fn poke(&self, word: usize, value: u64) {
        let (at, len) = self.rings[1];
        let at = (at as *mut u64).wrapping_add(word % (len / 8));
        // SAFETY: inside the mapping; that the process's own end is there, too, is the test.
        unsafe { at.write_volatile(value) };
    }
}

/// Whether a mapping can be made writable.
fn writable((at, len): (usize, usize)) -> bool {
    let both = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: no less is allowed after it than before.
    unsafe { libc::mprotect(at as *mut libc::c_void, len, both) == 0 }
}

//! Memory that is backed before it serves.
//!
//! ```text
//!   Touching::begin(array) ──► a thread: 8 MB, a look at the machine's memory, 8 MB, …
//!         │                                                            └─► done
//!         └ dropped: it stops after the step under way
//! ```
//!
//! A mapping has no memory until it is touched, and then the kernel clears 4 KB or 2 MB
//! while the toucher waits: 0.1 ms and more, in the middle of whatever it was at. What
//! is touched here keeps its contents, so others may read and write it meanwhile.

use std::hint::black_box;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::{Pages, RESERVE, Zeroed, available};

/// What can be touched step by step.
pub trait Touch: Send + Sync + 'static {
    /// Backs the memory of step `step`, of [`STEP`] bytes at most, and changes none of
    /// it; false behind the last.
    fn touch(&self, step: usize) -> bool;

    /// Backs all of it, on this thread.
    fn touch_all(&self) {
        (0..).take_while(|&step| has_room() && self.touch(step)).for_each(drop);
    }
}

/// A value that can be written as it is while others read and write it.
pub trait Cell: Zeroed {
    /// Writes what is there.
    fn rewrite(&self);
}

macro_rules! cell {
    ($($t:ty),*) => {$(
        impl Cell for $t {
            fn rewrite(&self) {
                // What is not 0 has its memory. One step, so no write of another thread
                // is lost; and who acquires what it leaves acquires what was released
                // there. `fetch_or(0)` is no write: compilers make a load of it.
                let _ = self.compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    )*};
}
cell!(AtomicU8, AtomicU16, AtomicU32, AtomicU64);

impl<T: Cell, const N: usize> Cell for [T; N] {
    fn rewrite(&self) {
        self.iter().step_by(a_page_of::<T>()).for_each(Cell::rewrite);
    }
}

impl<T: Cell + Send> Touch for Pages<T> {
    fn touch(&self, step: usize) -> bool {
        let Some(values) = self.step(step) else { return false };
        let touched = populate(&self[values.clone()]).or_else(|error| {
            let rewrite = || self[values.clone()].iter().step_by(a_page_of::<T>());
            is_old(&error).then(|| rewrite().for_each(Cell::rewrite)).ok_or(error)
        });
        self.has_touched(values.end, touched.is_ok())
    }
}

impl<T: Zeroed> Pages<T> {
    /// Backs all of it on this thread, which has it for itself, while there is room.
    pub fn touch_now(&mut self) {
        (0..).take_while(|&step| has_room() && self.touch_own(step)).for_each(drop);
    }

    /// As [`Touch::touch`].
    fn touch_own(&mut self, step: usize) -> bool {
        let Some(values) = self.step(step) else { return false };
        let touched = populate(&self[values.clone()]).or_else(|error| {
            let own = &mut self.as_mut_slice()[values.clone()];
            is_old(&error).then(|| rewrite_own(own)).ok_or(error)
        });
        self.has_touched(values.end, touched.is_ok())
    }

    /// The values of step `step`, where it has any.
    fn step(&self, step: usize) -> Option<Range<usize>> {
        let per_step = (STEP / size_of::<T>()).max(1);
        let from = step.saturating_mul(per_step);
        (from < self.len).then(|| from..self.len.min(from.saturating_add(per_step)))
    }

    /// All before `end` were touched, if it `is_so`.
    fn has_touched(&self, end: usize, is_so: bool) -> bool {
        if is_so && let Some(promise) = &self.promise {
            promise.keep(((self.len - end) * size_of::<T>()) as u64);
        }
        is_so
    }
}

/// Writes a byte of each page as it is.
fn rewrite_own<T: Zeroed>(values: &mut [T]) {
    let (place, len) = (values.as_mut_ptr().cast::<MaybeUninit<u8>>(), size_of_val(values));
    // SAFETY: these are the bytes of `values`, which nobody else uses meanwhile. Some may be
    // padding; each is written as it was.
    let bytes = unsafe { std::slice::from_raw_parts_mut(place, len) };
    for at in (0..len).step_by(PAGE).chain(len.checked_sub(1)) {
        bytes[at] = black_box(bytes[at]);
    }
}

/// Is it the kernel's that knows no such advice, before 5.14?
fn is_old(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EINVAL)
}

/// Has the kernel back `values`.
#[cfg(not(miri))]
fn populate<T: Zeroed>(values: &[T]) -> io::Result<()> {
    let place = values.as_ptr().cast::<u8>();
    let before = place.addr() % PAGE; // the kernel takes whole pages
    let (start, bytes) = (place.wrapping_sub(before).cast_mut(), before + size_of_val(values));
    // SAFETY: nothing is changed: memory that is there stays as it is, and of what is
    // not mapped the kernel says so.
    let answer = unsafe { libc::madvise(start.cast(), bytes, libc::MADV_POPULATE_WRITE) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Miri knows no `madvise`.
#[cfg(miri)]
fn populate<T: Zeroed>(_: &[T]) -> io::Result<()> {
    Err(io::Error::from_raw_os_error(libc::EINVAL))
}

/// Values in a page of the smallest size.
const fn a_page_of<T>() -> usize {
    if size_of::<T>() < PAGE { PAGE / size_of::<T>() } else { 1 }
}

/// A thread that touches what is to serve soon. Dropping this stops it.
pub struct Touching {
    done: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
}

impl Touching {
    /// Begins with `it`, on a thread of its own. It ends early where the machine would
    /// be left with too little memory ([`RESERVE`]); then, and where no thread is to be
    /// had, the rest is touched when it is used.
    pub fn begin(it: Arc<impl Touch>) -> Touching {
        let (done, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let touching = Touching { done: done.clone(), stop: stop.clone() };
        let run = move || {
            let goes_on =
                |&step: &usize| !stop.load(Ordering::Relaxed) && has_room() && it.touch(step);
            (0..).take_while(goes_on).for_each(drop);
            drop(it); // before others think themselves alone with it
            done.store(true, Ordering::Release);
        };
        let thread = std::thread::Builder::new().name("touch".into()).spawn(run);
        if thread.is_err() {
            touching.done.store(true, Ordering::Release);
        }
        touching
    }

    /// True when it has ended.
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }
}

impl Drop for Touching {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// May another step be backed?
fn has_room() -> bool {
    available().is_none_or(|free| free > RESERVE + STEP as u64)
}

const PAGE: usize = 4096;

/// Bytes touched at once: 1 to 3 ms, for so long nobody else can map memory. A multiple
/// of a page's.
pub const STEP: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::Kind;

    const LEN: usize = if cfg!(miri) { 1 << 10 } else { (3 << 20) + 5 };

    /// A few words, on few pages.
    const SPARSE: usize = 700_001;

    /// Bytes of `pages` that have memory, or had it until the machine wanted it for others.
    #[cfg(not(miri))]
    fn backed(pages: &Pages<AtomicU64>) -> usize {
        use std::os::unix::fs::FileExt;
        const PRESENT_OR_SWAPPED: u64 = 3 << 62;
        let mut words = vec![0; pages.bytes / PAGE * 8];
        let map = std::fs::File::open("/proc/self/pagemap").unwrap();
        let first = pages.place.as_ptr().addr() / PAGE;
        map.read_exact_at(&mut words, first as u64 * 8).unwrap();
        let words = words.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word));
        words.filter(|word| word & PRESENT_OR_SWAPPED != 0).count() * PAGE
    }

    #[test]
    fn all_is_backed_in_the_background_and_keeps_its_contents() {
        for kind in [Kind::Transparent, Kind::Small] {
            let pages = Arc::new(Pages::<AtomicU64>::zeroed_on(kind, LEN).unwrap());
            #[cfg(not(miri))]
            assert_eq!(backed(&pages), 0);
            let touching = Touching::begin(pages.clone());
            // Beside it a writer, whose words are all kept.
            for (i, word) in pages.iter().enumerate().step_by(SPARSE) {
                word.store(i as u64 + 1, Ordering::Relaxed);
            }
            while !touching.is_done() {
                std::thread::yield_now();
            }
            #[cfg(not(miri))]
            assert_eq!(backed(&pages), pages.bytes, "{kind:?}");
            let kept = |(i, word): (usize, &AtomicU64)| {
                word.load(Ordering::Relaxed) == if i % SPARSE == 0 { i as u64 + 1 } else { 0 }
            };
            assert!(pages.iter().enumerate().all(kept), "{kind:?}");
        }
    }

    #[test]
    fn what_an_old_kernel_does_not_do_is_done_by_hand() {
        let pages = Pages::<AtomicU64>::zeroed_on(Kind::Small, LEN).unwrap();
        pages[7].store(8, Ordering::Relaxed);
        pages.iter().step_by(512).for_each(Cell::rewrite);
        #[cfg(not(miri))]
        assert_eq!(backed(&pages), pages.bytes);
        assert_eq!(pages[7].load(Ordering::Relaxed), 8);
    }

    #[test]
    fn every_step_is_done_once_and_no_more() {
        for (len, steps) in [(0, 0), (1, 1), (STEP / 8, 1), (STEP / 8 + 1, 2), (STEP / 4, 2)] {
            let pages = Pages::<AtomicU64>::zeroed(len).unwrap();
            assert_eq!((0..9).take_while(|&step| pages.touch(step)).count(), steps, "{len}");
        }
        let wide = Pages::<[AtomicU8; 3]>::zeroed(100).unwrap();
        assert!(wide.touch(0) && !wide.touch(1) && !wide.touch(usize::MAX));
    }

    #[test]
    fn one_thread_touches_its_own_by_hand_too() {
        let mut pages = Pages::<[u8; 3]>::zeroed_on(Kind::Small, 3000).unwrap();
        pages.as_mut_slice()[1] = [5, 6, 7];
        rewrite_own(&mut pages.as_mut_slice()[1..]);
        rewrite_own::<u64>(&mut []);
        assert_eq!((pages[1], pages[2]), ([5, 6, 7], [0; 3]));
        let mut words = Pages::<u64>::zeroed_on(Kind::Small, 2000).unwrap();
        rewrite_own(&mut words.as_mut_slice()[..1500]);
        assert!(words.iter().all(|&word| word == 0));
    }

    #[test]
    #[cfg(not(miri))] // it asks the kernel what is backed
    fn what_is_touched_is_promised_no_longer() {
        use crate::pages::{LARGE_ARRAY, PRETENDED, admit};
        let room = 2 * LARGE_ARRAY;
        PRETENDED.set(Some(RESERVE + room as u64));
        let first = Pages::<AtomicU64>::admitted(Kind::Small, LARGE_ARRAY / 8).unwrap();
        assert!(Pages::<u64>::admitted(Kind::Small, room / 8).is_err(), "half of it is promised");
        // The machine says how much is left now: as much as before.
        first.touch_all();
        assert_eq!(backed(&first), LARGE_ARRAY);
        let mut second = Pages::<u64>::admitted(Kind::Small, room / 8).unwrap();
        assert!(admit(1).is_err());
        second.touch_now();
        admit(1).expect("that is touched, too");
        let third = Pages::<u64>::admitted(Kind::Small, LARGE_ARRAY / 8).unwrap();
        // On a slow machine what was granted above is forgotten by then; `third` is not.
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(admit(room - LARGE_ARRAY + 1).is_err());
        drop(third);
        admit(LARGE_ARRAY).expect("what is dropped is promised no longer");
        PRETENDED.set(None);
    }

    #[test]
    fn it_leaves_the_machine_its_reserve() {
        use crate::pages::PRETENDED;
        let pages = Pages::<AtomicU64>::zeroed_on(Kind::Small, LEN).unwrap();
        PRETENDED.set(Some(RESERVE));
        pages.touch_all();
        PRETENDED.set(None);
        #[cfg(not(miri))]
        assert_eq!(backed(&pages), 0);
        pages.touch_all();
        #[cfg(not(miri))]
        assert_eq!(backed(&pages), pages.bytes);
    }
}

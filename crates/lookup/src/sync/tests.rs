use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;

#[test]
fn the_old_version_is_dropped_after_the_reader_quiesced() {
    let domain = Domain::new();
    let value = Arc::new(1);
    let published = Published::new(&domain, value.clone());
    let mut reader = domain.register("reader");
    assert_eq!(**published.load(reader.guard()), 1);
    published.publish(Arc::new(2));
    assert_eq!((domain.reclaim(), domain.waiting()), (1, 1));
    assert_eq!(Arc::strong_count(&value), 2);
    reader.quiesce();
    assert_eq!(domain.reclaim(), 0);
    assert_eq!(Arc::strong_count(&value), 1);
    assert_eq!(**published.load(reader.guard()), 2);
}

#[test]
fn an_offline_thread_holds_nothing_up() {
    let domain = Domain::new();
    let mut reader = domain.register("reader");
    reader.offline();
    domain.retire(Box::new(1));
    assert_eq!(domain.reclaim(), 0);
    reader.online();
    domain.retire(Box::new(2));
    assert_eq!(domain.reclaim(), 1);
    assert!(!domain.synchronize(Duration::from_millis(1)));
    drop(reader);
    assert_eq!(domain.waiting(), 0);
}

#[test]
#[should_panic(expected = "while the thread is offline")]
fn offline_there_is_no_guard() {
    let mut reader = Domain::new().register("reader");
    reader.offline();
    reader.guard();
}

#[test]
#[should_panic(expected = "another domain")]
fn a_guard_is_good_for_its_own_domain_only() {
    let published = Published::new(&Domain::new(), 1);
    published.load(Domain::new().register("stranger").guard());
}

#[test]
fn the_writer_is_refused_at_the_garbage_limit_and_the_silent_reader_named() {
    let domain = Domain::with_limit(2);
    let published = Published::new(&domain, 0);
    let mut slow = domain.register("slow");
    let mut quick = domain.register("quick");
    assert_eq!(domain.stalled(), Vec::<String>::new());
    for version in 1..=3 {
        published.try_publish(version).expect("the limit is not reached");
    }
    std::thread::sleep(SILENT_AFTER + Duration::from_millis(5));
    quick.quiesce();
    let refusal = published.try_publish(4).expect_err("three wait");
    assert_eq!((refusal.waiting, refusal.silent), (3, vec!["slow".to_string()]));
    assert_eq!((domain.refused(), *published.load(quick.guard())), (1, 3));
    let states = domain.threads();
    assert!(states[0].online && states[0].behind > states[1].behind);
    slow.quiesce();
    quick.quiesce();
    published.try_publish(5).expect("all is reclaimed");
    assert_eq!(domain.stalled(), Vec::<String>::new());
}

#[test]
fn limbo_hands_back_after_the_grace_period_and_not_before() {
    let domain = Domain::new();
    let mut reader = domain.register("reader");
    let mut limbo = Limbo::new(&domain, 99);
    let mut back = Vec::new();
    (0..100).for_each(|i| limbo.push(i));
    limbo.drain(|i| back.push(i));
    assert_eq!((back.len(), limbo.len()), (0, 100));
    assert!(limbo.admit().is_err() && domain.refused() == 1);
    reader.quiesce();
    limbo.push(100);
    limbo.drain(|i| back.push(i));
    assert_eq!((back.len(), limbo.len()), (100, 1));
    reader.offline();
    limbo.drain(|i| back.push(i));
    assert_eq!(back, (0..=100).collect::<Vec<_>>());
    assert!(limbo.is_empty() && limbo.admit().is_ok());
}

#[test]
fn garbage_that_holds_the_domain_goes_with_the_last_thread() {
    let domain = Domain::new();
    let reader = domain.register("reader");
    let published = Published::new(&domain, domain.clone());
    published.publish(domain.clone());
    drop(published);
    assert!(Arc::strong_count(&domain) > 2);
    drop(reader);
    assert_eq!(Arc::strong_count(&domain), 1);
}

/// Leaves its number in `dropped`, at a place that it shares with few others.
struct Numbered {
    number: u64,
    dropped: Arc<Dropped>,
}

/// Of numbers that share a place, the one dropped last.
struct Dropped([AtomicU64; 1 << 12]);

impl Dropped {
    fn place(&self, number: u64) -> &AtomicU64 {
        &self.0[number as usize % self.0.len()]
    }
}

impl Drop for Numbered {
    fn drop(&mut self) {
        self.dropped.place(self.number).store(self.number, Ordering::Release);
    }
}

/// Interleaving G on this machine's own processors, as control, bridge and a worker
/// without packets do it. loom explores a round of it up to three preemptions; here the
/// sanitizers and miri look on.
#[test]
fn what_a_reader_holds_outlives_two_publishers_and_its_naps() {
    let until = Instant::now() + crate::exact::oracle::stress_time();
    let goes_on = |round: u64| round == 0 || Instant::now() < until && !(cfg!(miri) && round > 20);
    let (domain, dropped) =
        (Domain::new(), Arc::new(Dropped([const { AtomicU64::new(0) }; 1 << 12])));
    let version = |number| Numbered { number, dropped: dropped.clone() };
    let published = Published::new(&domain, version(1));
    let mut reader = domain.register("reader");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in (0..).take_while(|&round| goes_on(round)) {
                published.publish(version(2 + round));
                domain.reclaim();
            }
        });
        scope.spawn(|| {
            let own = Published::new(&domain, 0);
            for round in (0..).take_while(|&round| goes_on(round)) {
                own.publish(round);
                domain.reclaim();
            }
        });
        let mut before = 0;
        for _ in (0..).take_while(|&round| goes_on(round)) {
            reader.offline();
            std::hint::spin_loop();
            reader.online();
            let now = published.load(reader.guard());
            for _ in 0..10 {
                let last = dropped.place(now.number).load(Ordering::Acquire);
                assert_ne!(last, now.number, "dropped while it was read");
            }
            assert!(now.number >= before, "versions go forward");
            before = now.number;
        }
        reader.offline(); // or what the others publish would wait for it
    });
    drop((reader, published));
    assert_eq!((domain.reclaim(), domain.waiting()), (0, 0));
}

#[test]
fn destructors_may_retire_and_reclaim() {
    struct Nested(Arc<Domain>, u32);
    impl Drop for Nested {
        fn drop(&mut self) {
            if self.1 > 0 {
                self.0.retire(Box::new(Nested(self.0.clone(), self.1 - 1)));
                self.0.reclaim();
            }
        }
    }
    let domain = Domain::new();
    let reader = domain.register("reader");
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                domain.retire(Box::new(Nested(domain.clone(), 5)));
                domain.reclaim()
            });
        }
    });
    assert_eq!(domain.waiting(), 2);
    drop(reader);
    assert_eq!((domain.waiting(), Arc::strong_count(&domain)), (0, 1));
}

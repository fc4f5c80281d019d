//! Easy version 19: programs are replaced while workers run them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use policy::bpf::load;
use policy::bpf::stock::STOCK;
use policy::program::{Answer, Program};

use super::packets::{tcp, v4};
use super::{CLOCK, cookie};

/// Code is freed by the last who holds the program, who may be a worker in the middle of it.
#[test]
fn a_program_that_is_replaced_runs_to_its_end() {
    let new = |n: usize| load(STOCK[[0, 2, 3][n % 3]].object, CLOCK).unwrap();
    let slot: Mutex<Arc<dyn Program>> = Mutex::new(new(0));
    let (over, ran) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let frame = v4(&tcp(9, 80, 0x10), 0, 0);
                let mut now = 0;
                while !over.load(Ordering::Relaxed) {
                    let program = slot.lock().unwrap().clone();
                    for _ in 0..100 {
                        let mut page = cookie(&[0xff; 16]);
                        program.init(now, &mut page).unwrap();
                        now += 1_000;
                        let answer = program.packet(&frame.arrival(now), u64::MAX, &mut page);
                        assert_eq!(answer, Answer::Send(1));
                        ran.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for n in 0..1_000 {
            *slot.lock().unwrap() = new(n);
            thread::yield_now();
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(ran.into_inner() > 1_000);
}

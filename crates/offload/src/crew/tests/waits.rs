//! Inputs whose next addresses come after the answers to those before.

use std::cell::Cell;
use std::rc::Rc;

use super::*;

/// A question comes when the one before is answered: nothing is read, or waited for, too early.
#[test]
fn an_input_that_waits_is_read_when_all_is_answered() {
    struct Asker(Rc<Cell<usize>>, usize);
    impl Input<u32> for Asker {
        fn fill(&mut self, dsts: &mut [u32]) -> io::Result<usize> {
            assert_eq!(self.0.get(), 0, "the answer is still to come");
            let n = dsts.len().min(3).min(self.1);
            self.1 -= n;
            self.0.set(n);
            Ok(n)
        }

        fn waits(&self) -> bool {
            self.0.get() > 0
        }
    }
    struct Answers(Rc<Cell<usize>>, usize);
    impl Output<u32> for Answers {
        fn take(&mut self, dsts: &[u32], _: &[Hop]) -> io::Result<()> {
            self.0.set(self.0.get() - dsts.len());
            self.1 += dsts.len();
            Ok(())
        }
    }
    let rib = routes();
    let stages = Stage::ALL.into_iter().filter(|of| !matches!(of, Stage::Load | Stage::Update));
    for lost in stages.map(|stage| Some((stage, 5))).chain([None]) {
        let (clock, open) = (Clock::made(), Rc::new(Cell::new(0)));
        let mut crew = crew(&rib, &clock);
        let device = model(40e6, lost, &clock);
        crew.join(device, Buffers { size: 1000, depth: 2 }, Share::Fixed(0.5)).unwrap();
        let mut answers = Answers(open.clone(), 0);
        crew.run(&mut Asker(open.clone(), 3000), &mut answers).unwrap();
        assert_eq!((open.get(), answers.1), (0, 3000), "{lost:?}");
    }
}

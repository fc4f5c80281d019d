//! A table that outgrows the memory of the device.

use super::*;

/// Addresses, and half-way so many routes more that the table needs another image.
struct Growing {
    left: u64,
    grows: bool,
    rib: Rib<u32>,
    rng: SplitMix64,
}

const ALL: u64 = 200_000;

impl Input<u32> for Growing {
    fn fill(&mut self, dsts: &mut [u32]) -> io::Result<usize> {
        let half = if self.grows { self.left - ALL / 2 } else { self.left };
        let most = half.min(dsts.len() as u64) as usize;
        dsts[..most].iter_mut().for_each(|dst| *dst = self.rng.next() as u32);
        self.left -= most as u64;
        Ok(most)
    }

    fn changes(&mut self) -> Option<(&Rib<u32>, Vec<Change<u32>>)> {
        if !self.grows || self.left > ALL / 2 {
            return None;
        }
        self.grows = false;
        let mut rng = SplitMix64(5);
        let mut change = |i| Change {
            prefix: Prefix::covering(rng.next() as u32, 25 + (i % 8) as u8),
            hop: Some(Hop(1 + rng.below(1000) as u32)),
        };
        let changes: Vec<_> = (0..20_000).map(&mut change).collect();
        for change in &changes {
            self.rib.apply(change);
        }
        Some((&self.rib, changes))
    }
}

/// Compares each answer with the routes of its half.
struct Halves {
    rng: SplitMix64,
    ribs: [Rib<u32>; 2],
    seen: u64,
}

impl Output<u32> for Halves {
    fn take(&mut self, dsts: &[u32], hops: &[Hop]) -> io::Result<()> {
        for (&dst, &hop) in dsts.iter().zip(hops) {
            let rib = &self.ribs[usize::from(self.seen >= ALL / 2)];
            assert_eq!(dst, self.rng.next() as u32, "in order, none twice, none left out");
            assert_eq!(hop, rib.lookup(dst).map_or(Hop::NONE, |(_, hop)| hop));
            self.seen += 1;
        }
        Ok(())
    }
}

/// Each engine's first image fits, with room for a few changes, and the second does not.
#[test]
#[cfg_attr(miri, ignore = "thousands of routes")]
fn a_table_that_outgrows_the_device_in_mid_run_leaves_the_cores_at_work() {
    let rib = routes();
    for engine in ["rutter4", "bloomfwd", "miht"] {
        for share in [Share::Measured, Share::Fixed(0.5)] {
            let (clock, entry) = (Clock::made(), u32::engine(engine).unwrap());
            let table = Table::build(entry, &Options::default(), &rib).unwrap();
            let memory = table.image().unwrap().bytes() + 1000;
            let cores = model(10e6, None, &clock);
            let mut crew = Crew::new(table, cores, 1000, 4 << 20, &clock).unwrap();
            let figures = Figures { rate: 40e6, memory, ..Figures::default() };
            let buffers = Buffers { size: 1000, depth: 2 };
            crew.join(Box::new(Model::new(figures, &clock)), buffers, share).unwrap();
            let answered = Arc::new(AtomicBool::new(false));
            let hears = answered.clone();
            crew.on_fault(Box::new(move |_| hears.store(true, Ordering::Relaxed)));
            let rng = || SplitMix64(9);
            let mut input = Growing { left: ALL, grows: true, rib: rib.clone(), rng: rng() };
            let mut grown = Growing { left: ALL / 2, grows: true, rib: rib.clone(), rng: rng() };
            let ribs = [rib.clone(), grown.changes().expect("they are due").0.clone()];
            let mut output = Halves { rng: rng(), ribs, seen: 0 };
            crew.run(&mut input, &mut output).unwrap();
            assert!(output.seen == ALL && answered.load(Ordering::Relaxed), "{engine}");
            let faults = crew.take_faults();
            let [Fault::NoMemory { wanted, free, .. }] = &faults[..] else { panic!("{faults:?}") };
            assert!(*free == memory && *wanted > memory, "{engine}: {faults:?}");
            let says = faults[0].to_string();
            let needs = "MiB free; smaller buffers or another engine need less";
            assert!(says.starts_with("model (40 million") && says.ends_with(needs), "{says}");
        }
    }
}

//! Decides which worker polls which queue, and which workers hand packets to which.
//!
//! A port with a queue for every worker gives each worker one. A port with fewer queues is polled
//! by as many workers as it has queues, in turn. A worker without a queue of a port hands the
//! packets that leave by it to a worker with one.

/// The workers of one port's queues.
pub type Queues = Vec<usize>;

/// A port whose queues are to be distributed.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The number of queues that the device supports and the user wants.
    pub most: u16,
    /// Queue i belongs to worker i, or there is one queue: its packets have owners.
    pub owned: bool,
}

/// Distributes the queues of all ports.
pub fn deal(wanted: &[Wanted], workers: usize) -> Vec<Queues> {
    let mut next = 0;
    let mut deal = |wanted: &Wanted| {
        let queues = usize::from(wanted.most).clamp(1, workers);
        let queues = match wanted.owned {
            true if queues == workers => return (0..workers).collect(),
            true => 1,
            false => queues,
        };
        let dealt = (0..queues).map(|queue| (next + queue) % workers).collect();
        // A port on every worker does not advance the turn.
        next = if queues == workers { next } else { (next + queues) % workers };
        dealt
    };
    wanted.iter().map(&mut deal).collect()
}

/// For each worker, the ports that it must hand over, with the worker that takes them.
pub fn handovers(dealt: &[Queues], workers: usize) -> Vec<Vec<(u16, usize)>> {
    let away = |worker: usize| {
        let ports = dealt.iter().zip(0_u16..).filter(move |(queues, _)| !queues.contains(&worker));
        // Workers without a queue are spread over those that have one.
        ports.map(move |(queues, port)| (port, queues[worker % queues.len()])).collect()
    };
    (0..workers).map(away).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deal(most: &[u16], workers: usize) -> Vec<Queues> {
        let wanted: Vec<_> = most.iter().map(|most| Wanted { most: *most, owned: false }).collect();
        super::deal(&wanted, workers)
    }

    #[test]
    fn an_owner_has_the_queue_of_its_number() {
        let wanted = [(1, false), (9, true), (3, true), (2, false), (1, true)];
        let wanted = wanted.map(|(most, owned)| Wanted { most, owned });
        let dealt = super::deal(&wanted, 4);
        assert_eq!(dealt, [vec![0], vec![0, 1, 2, 3], vec![1], vec![2, 3], vec![0]]);
    }

    #[test]
    fn ports_with_few_queues_are_dealt_round() {
        assert_eq!(deal(&[1, 1, 1], 2), [[0], [1], [0]]);
        assert_eq!(deal(&[4, 1, 1], 2), [vec![0, 1], vec![0], vec![1]]);
        assert_eq!(deal(&[2, 2], 4), [[0, 1], [2, 3]]);
        assert_eq!(deal(&[0, 9], 1), [[0], [0]]);
    }

    #[test]
    fn a_worker_hands_over_what_it_has_no_queue_of() {
        let dealt = deal(&[1, 2, 1], 2);
        assert_eq!(handovers(&dealt, 2), [vec![(2, 1)], vec![(0, 0)]]);
        assert_eq!(handovers(&deal(&[1, 1], 1), 1), [vec![]]);
    }
}

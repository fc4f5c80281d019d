//! Decisions on their way to Gatekeepers.

use policy::ask::Verdict;
use tables::event::NeighbourState;
use wire::ggu::{Decision, Flow};

use super::rig::{
    DECLINED, GATEKEEPER, GRANTED, Rig, datagram, datagram6, grant, in_v4, in_v4_from, in_v6,
    neighbour,
};
use crate::testbed::P0;

fn flow(client: u32) -> Flow {
    Flow::V4 { src: (0xc633_6400 + client).into(), dst: [10, 20, 0, 1].into() }
}

/// Both families, byte for byte; the source is the address that the request was sent to.
#[test]
fn a_message_is_what_the_deployed_grantor_sends() {
    let mut rig = Rig::new(grant);
    rig.back.push(&in_v4(41, &datagram(2, 20)));
    rig.run();
    let [frame] = &rig.back.take()[..] else { panic!("one message") };
    let mut want = [&GATEKEEPER[..], &P0, &[8, 0]].concat();
    let ip = [0x45, 0, 0, 60, 0, 0, 0x40, 0, 64, 17, 0x22, 0xa4, 10, 0, 2, 9, 10, 0, 2, 1];
    let udp = [0xa0, 0xa0, 0xb0, 0xb0, 0, 40];
    assert_eq!(frame[..14], want[..]);
    assert_eq!(frame[14..24], ip[..10]);
    assert_eq!(frame[26..34], ip[12..]);
    assert!(checksum_is_right(&frame[14..34]));
    assert_eq!(frame[34..40], udp);
    let decision = Decision { flow: flow(2), verdict: GRANTED };
    let mut bytes = [0; 28];
    decision.emit(&mut bytes).unwrap();
    assert_eq!(frame[42..], [&[1, 0, 0, 0][..], &bytes].concat());
    assert_eq!(super::rig::message(frame), ("10.0.2.9 > 10.0.2.1".into(), vec![decision]));

    rig.back.push(&in_v6(41, 0, &datagram6(2, 20)));
    rig.run();
    let [frame] = &rig.back.take()[..] else { panic!("one message") };
    want[12..].copy_from_slice(&[0x86, 0xdd]);
    assert_eq!(frame[..14], want[..]);
    assert_eq!(frame[14..22], [0x60, 0, 0, 0, 0, 64, 17, 255]);
    let (src, dst) = ("2001:db8:9::2".parse().unwrap(), "2001:db8:20::1".parse().unwrap());
    let decision = Decision { flow: Flow::V6 { src, dst }, verdict: GRANTED };
    let want = ("2001:db8:2::9 > 2001:db8:2::1".into(), vec![decision]);
    assert_eq!(super::rig::message(frame), want);
}

fn checksum_is_right(header: &[u8]) -> bool {
    wire::checksum::is_right(header)
}

#[test]
fn decisions_of_a_round_share_messages_that_the_way_carries() {
    let mut rig = Rig::new(grant);
    (0..64).for_each(|n| rig.back.push(&in_v4(41, &datagram(n, 20))));
    rig.run();
    let frames = rig.back.take();
    assert!(frames.len() <= 3, "{}", frames.len());
    assert!(frames.iter().all(|frame| frame.len() <= 1_514));
    let decisions = frames.iter().flat_map(|frame| super::rig::message(frame).1);
    assert!(decisions.map(|decision| decision.flow).eq((0..64).map(flow)));
    let counts = &rig.counters;
    assert_eq!((counts.decisions.get(), counts.messages.get()), (64, frames.len() as u64));
}

#[test]
fn each_gatekeeper_hears_of_its_own() {
    let mut rig = Rig::new(grant);
    for round in 0..3 {
        for host in 0..20 {
            let frame = in_v4_from([10, 0, 1, host], 41 << 2, &datagram(u32::from(host), 20));
            rig.back.push(&frame);
        }
        let got = rig.decisions();
        let mut ends: Vec<_> = got.iter().map(|(ends, _)| ends.clone()).collect();
        ends.sort_unstable();
        let mut want: Vec<_> = (0..20).map(|host| format!("10.0.2.9 > 10.0.1.{host}")).collect();
        want.sort_unstable();
        assert_eq!(ends, want, "{round}");
        for (ends, decisions) in got {
            let host = ends.rsplit('.').next().unwrap().parse().unwrap();
            assert_eq!(decisions, [Decision { flow: flow(host), verdict: GRANTED }]);
        }
    }
}

/// While the kernel has not resolved the Gatekeeper, messages go to the neighbour that asked.
#[test]
fn without_a_neighbour_the_answer_goes_back_the_way_it_came() {
    let mut rig = Rig::new(grant);
    rig.control.handle(&[neighbour(1, "10.0.2.1", GATEKEEPER, NeighbourState::Failed)]);
    rig.control.commit();
    rig.back.push(&in_v4(41, &datagram(2, 20)));
    rig.run();
    let [frame] = &rig.back.take()[..] else { panic!("one message") };
    assert_eq!(frame[..14], [&GATEKEEPER[..], &P0, &[8, 0]].concat());
    assert_eq!(super::rig::message(frame).1.len(), 1);
    assert!(rig.kernel.is_empty());
}

#[test]
fn all_kinds_of_decisions_get_there() {
    let program = wire::ggu::Verdict::Program { expire_s: 9, index: 4, cookie: [7; 64] };
    let kinds = [DECLINED, GRANTED, program];
    let mut rig = Rig::new(|_| None);
    for verdict in kinds {
        for forward in [false, true] {
            rig.back.push(&in_v4(41, &datagram(5, 20)));
            rig.run();
            let id = rig.policy.lock().asked.pop().unwrap().id;
            let decision = Some(verdict);
            rig.policy.lock().answers.push_back(Verdict { id, forward, decision });
            let got = rig.decisions();
            let want = Decision { flow: flow(5), verdict };
            assert_eq!(got, [("10.0.2.9 > 10.0.2.1".into(), vec![want])]);
            assert_eq!(rig.inside.take().len(), usize::from(forward));
        }
    }
}

/// More Gatekeepers than messages: answers wait for messages, and none is lost.
#[test]
fn each_of_many_gatekeepers_gets_its_decisions() {
    let mut rig = Rig::new(|_| None);
    let frames: Vec<_> =
        (0..200).map(|n| in_v4_from([10, 0, 1, n], 41 << 2, &datagram(n.into(), 20))).collect();
    rig.send(&frames);
    let answers: Vec<_> = rig.policy.lock().asked.iter().filter_map(grant).collect();
    assert_eq!(answers.len(), 200);
    rig.policy.lock().answers.extend(answers);
    rig.run();
    assert_eq!((rig.counters.unsent.get(), rig.counters.decisions.get()), (0, 200));
    assert_eq!(rig.back.take().len(), 200);
}

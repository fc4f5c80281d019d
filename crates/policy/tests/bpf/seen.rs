//! Easy version 17: a program sees the frame as it was received, with its headers' lengths.

use policy::bpf::assemble::*;
use policy::bpf::insn::{ADD, AND, RSH};
use policy::bpf::{Checked, Engine};
use policy::program::{Answer, Arrival};

use super::packets::{Frame, Upper, tcp, v4, v6};
use super::{CLOCK, engines};

fn ok() -> Lines {
    [mov(0, 0), exit()].concat()
}

/// Runs `pkt`, which leaves what it sees in the cookie, by each engine.
fn sees(parts: &[Lines], arrival: &Arrival<'_>) -> u64 {
    let begin = [copy(6, 1), call("pkt_ctx_to_cookie"), copy(7, 0), copy(1, 6)].concat();
    let begin = [begin, call("pkt_ctx_to_pkt"), copy(8, 0)].concat();
    let end = [store(8, 7, 0, 1), mov(0, 1), exit()].concat();
    let checked = Checked::new(&object(&ok(), &[begin, parts.concat(), end].concat()), CLOCK);
    let seen = engines(&checked.unwrap()).into_iter().map(|(engine, program)| {
        let mut page = [0; 64];
        assert_eq!(program.packet(arrival, 1_000, &mut page), Answer::Decline, "{engine:?}");
        u64::from_le_bytes(page[..8].try_into().unwrap())
    });
    let seen: Vec<u64> = seen.collect();
    assert!(seen.iter().all(|one| *one == seen[0]), "{seen:?}");
    seen[0]
}

fn context(len: usize, off: i16, frame: &Frame) -> u64 {
    sees(&[load(len, 1, 6, off)], &frame.arrival(77))
}

/// Lengths of the headers: link, IP, and what follows.
fn lengths(frame: &Frame) -> [u64; 3] {
    let word = sees(&[load(8, 1, 8, 72)], &frame.arrival(0));
    assert_eq!(word >> 24, 0);
    [word & 0x7f, word >> 7 & 0x1ff, word >> 16]
}

/// A byte of the frame.
fn byte(at: i16, arrival: &Arrival<'_>) -> u64 {
    let data = [load(8, 9, 8, 0), load(2, 1, 8, 16), copy(2, 9)].concat();
    sees(&[data, [copy(9, 2), arithmetic_by(ADD, 9, 1), load(1, 1, 9, at)].concat()], arrival)
}

#[test]
fn the_context_says_when_and_what() {
    let mut upper = tcp(1, 2, 3);
    let frame = v4(&upper, 3, 0);
    assert_eq!((context(8, 0, &frame), context(8, 8, &frame)), (77, 1_000));
    assert_eq!((context(2, 16, &frame), context(1, 18, &frame)), (0x0800, 6));
    assert_eq!((context(1, 19, &frame), context(4, 20, &frame)), (0, 0));
    upper.fragment = true;
    for frame in [v4(&upper, 0, 1), v6(&upper, 0, 1), v6(&upper, 2, 0)] {
        assert_eq!((context(1, 18, &frame), context(1, 19, &frame)), (6, 1));
    }
    assert_eq!(context(2, 16, &v6(&upper, 0, 0)), 0x86dd);
    // The last fragment has no more of them, and an offset.
    let mut last = v4(&tcp(1, 2, 3), 0, 0);
    last.packet[6..8].copy_from_slice(&[0, 1]);
    assert_eq!(context(1, 19, &last), 1);
}

#[test]
fn the_descriptor_has_the_lengths_of_headers() {
    let upper = Upper { proto: 17, bytes: vec![0; 30], fragment: false };
    assert_eq!(lengths(&v4(&upper, 0, 0)), [14, 20, 30]);
    assert_eq!(lengths(&v4(&upper, 10, 1)), [18, 60, 30]);
    assert_eq!(lengths(&v6(&upper, 0, 2)), [22, 40, 30]);
    assert_eq!(lengths(&v6(&upper, 5, 0)), [14, 80, 30]);
    let long = Upper { bytes: vec![0; 1_400], ..upper };
    assert_eq!(lengths(&v4(&long, 0, 0)), [14, 20, 255]);
    let frame = v4(&long, 0, 1);
    assert_eq!(sees(&[load(4, 1, 8, 36)], &frame.arrival(0)), 18 + 20 + 1_400);
    assert_eq!(sees(&[load(2, 1, 8, 16)], &frame.arrival(0)), 128);
}

#[test]
fn the_bytes_are_the_frame_s() {
    let frame = v4(&tcp(0x1234, 0x5678, 0x12), 0, 1);
    let whole = [&frame.link[..], &frame.packet].concat();
    for (at, wanted) in whole.iter().enumerate() {
        assert_eq!(byte(at as i16, &frame.arrival(0)), u64::from(*wanted), "{at}");
    }
    // Behind its end are zeros, also after a longer one.
    assert_eq!(byte(whole.len() as i16, &frame.arrival(0)), 0);
    assert_eq!(byte(1_023, &frame.arrival(0)), 0);
    let long = Frame { packet: [&frame.packet[..], &[7; 2_000]].concat(), ..frame };
    assert_eq!(byte(1_023, &long.arrival(0)), 7);
    let plain = [load(2, 1, 8, 72), arithmetic(RSH, 1, 7), arithmetic(AND, 1, 0x1ff)].concat();
    assert_eq!(sees(&[plain], &long.arrival(0)), 20);
}

/// Headers that cannot be read, and what `pkt` gives without having prepared.
#[test]
fn answers_are_those_of_the_specification() {
    let run = |pkt: &[Line], frame: &Frame| {
        let checked = Checked::new(&object(&ok(), pkt), CLOCK).unwrap();
        let answers = engines(&checked)
            .into_iter()
            .map(|(_, program)| program.packet(&frame.arrival(1), 2, &mut [0; 64]));
        let answers: Vec<Answer> = answers.collect();
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
        answers[0]
    };
    let frame = v6(&tcp(1, 2, 3), 1, 0);
    let give = |given| [mov(0, given), exit()].concat();
    assert_eq!(run(&give(0), &frame), Answer::Undecided);
    assert_eq!(run(&give(1), &frame), Answer::Decline);
    for given in [2, 3, -1, i32::MIN] {
        assert_eq!(run(&give(given), &frame), Answer::Fail, "{given}");
    }
    let prepare = |priority, direct| {
        [copy(6, 1), mov(2, priority), mov(3, direct), call("gk_bpf_prep_for_tx")].concat()
    };
    for (priority, direct, answer) in [
        (1, 0, Answer::Send(1)),
        (1, 1, Answer::Direct),
        (1, -5, Answer::Direct),
        (2, 1, Answer::Send(2)),
        (0, 0, Answer::Send(0)),
        (63, 1, Answer::Send(63)),
        (64, 0, Answer::Undecided),
        (-1, 0, Answer::Undecided),
    ] {
        let sent = [prepare(priority, direct), give(0)].concat();
        assert_eq!(run(&sent, &frame), answer, "{priority} {direct}");
        // It is said to the program, too: what failed is no answer of its own.
        let fine = if answer == Answer::Undecided { Answer::Fail } else { answer };
        let said = [prepare(priority, direct), jump(0xc0, 0, 0, 2), give(0), give(2)].concat();
        assert_eq!(run(&said, &frame), fine, "{priority} {direct}");
        let dropped = [prepare(priority, direct), give(1)].concat();
        assert_eq!(run(&dropped, &frame), Answer::Decline);
    }
    // Once a packet.
    let again = [copy(1, 6), mov(2, 2), mov(3, 0), call("gk_bpf_prep_for_tx")].concat();
    let twice = [prepare(1, 0), again.clone(), jump(0xc0, 0, 0, 2), give(2), give(0)].concat();
    assert_eq!(run(&twice, &frame), Answer::Send(1));
    assert_eq!(run(&[prepare(64, 0), again, give(0)].concat(), &frame), Answer::Send(2));
    // Extension headers that are cut off, too long, or too many; a packet of no version.
    let mut cut = v6(&tcp(1, 2, 3), 1, 0);
    cut.packet.truncate(44);
    let long = v6(&tcp(1, 2, 3), 60, 0);
    let mut short = v4(&tcp(1, 2, 3), 4, 0);
    short.packet.truncate(30);
    let mut other = v4(&tcp(1, 2, 3), 0, 0);
    other.packet[0] = 0x55;
    let mut no_header = v4(&tcp(1, 2, 3), 0, 0);
    no_header.packet[0] = 0x44;
    for frame in [cut, long, short, other, no_header] {
        assert_eq!(run(&give(1), &frame), Answer::Undecided, "{frame:?}");
    }
}

/// The program of a packet that it cannot read does not run, by which engine so ever.
#[test]
fn a_page_is_left_alone_where_no_program_runs() {
    let pkt = [call("pkt_ctx_to_cookie"), put(8, 0, 0, 9), mov(0, 1), exit()].concat();
    let checked = Checked::new(&object(&ok(), &pkt), CLOCK).unwrap();
    for engine in [Engine::Interpreter, Engine::Compiled] {
        let Some(program) = checked.by(engine) else { continue };
        let mut page = [0; 64];
        let arrival = Arrival { now: 1, len: 60, link: &[0; 14], packet: &[] };
        assert_eq!(program.packet(&arrival, 2, &mut page), Answer::Undecided);
        assert_eq!(page, [0; 64]);
    }
}

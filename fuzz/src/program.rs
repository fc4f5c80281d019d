//! Objects of a Gatekeeper's programs: nothing panics, and what the check takes does nothing
//! that the interpreter, which looks at each access, would refuse.

use policy::bpf::assemble::{Line, Lines, exit, mov};
use policy::bpf::insn::{Insn, LEN};
use policy::bpf::stock::STOCK;
use policy::bpf::{Checked, Clock, assemble};
use policy::program::Arrival;

/// Bytes as an object, and as the instructions of one, behind those that fetch all there is.
pub fn object(bytes: &[u8]) {
    harmless(bytes);
    let words = bytes.as_chunks::<LEN>().0.iter().take(512);
    let lines: Lines = words.map(|word| line(Insn::parse(*word))).collect();
    let end = [mov(0, 1), exit()].concat();
    for lines in [&lines[..], &[&lines[..], &end].concat()] {
        harmless(&assemble::object(&end, &[&begin(), lines].concat()));
        harmless(&assemble::object(lines, &end));
    }
}

/// r6 is the context, r7 the cookie, r8 the descriptor, r9 the packet's first byte.
fn begin() -> Lines {
    use assemble::{arithmetic_by, call, copy, load};
    let cookie = [copy(6, 1), call("pkt_ctx_to_cookie"), copy(7, 0)].concat();
    let packet = [copy(1, 6), call("pkt_ctx_to_pkt"), copy(8, 0), load(8, 9, 8, 0)].concat();
    [cookie, packet, load(2, 1, 8, 16), arithmetic_by(0, 9, 1)].concat()
}

/// Calls and variables have the names that their numbers say.
fn line(insn: Insn) -> Line {
    let n = insn.imm.unsigned_abs() as usize;
    let helpers = ["pkt_ctx_to_cookie", "pkt_ctx_to_pkt", "gk_bpf_prep_for_tx"];
    match insn.code {
        0x85 => assemble::call(helpers[n % 3])[0],
        0x18 if insn.src != 0 => {
            assemble::variable(insn.dst, ["cycles_per_sec", "cycles_per_ms"][n % 2])[0]
        }
        _ => Line { insn, name: None },
    }
}

fn harmless(object: &[u8]) {
    let clock = Clock { cycles_per_sec: 2_800_000_000, cycles_per_ms: 2_800_000 };
    match Checked::new(object, clock) {
        Err(refused) => assert!(!refused.to_string().is_empty()),
        Ok(checked) => {
            for seed in [0, 0x7f, 0xff] {
                let mut page = [seed; 64];
                assert!(checked.try_init(seed.into(), &mut page).is_some(), "init");
                let mut packet = [seed; 300];
                packet[0] = 0x45;
                let arrival = Arrival { now: 1, len: 314, link: &[seed; 14], packet: &packet };
                assert!(checked.try_packet(&arrival, 9, &mut page).is_some(), "pkt");
            }
        }
    }
}

/// The objects that come with us, and the instructions of each.
pub fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    let whole = STOCK.iter().map(|stock| (stock.name.to_owned(), stock.object.to_vec()));
    let pieces = {
        use assemble::*;
        let bounded = [load(1, 1, 7, 0), arithmetic(0x50, 1, 56), arithmetic_by(0, 7, 1)].concat();
        let packet = [load(4, 2, 8, 36), load(1, 3, 9, 20), put(8, 10, -8, 1)].concat();
        let prepare = [copy(1, 6), mov(2, 1), mov(3, 0), call("gk_bpf_prep_for_tx")].concat();
        [bounded, load(8, 1, 7, 0), packet, prepare, exit()].concat()
    };
    let pieces = pieces.iter().flat_map(|line| line.insn.emit()).collect();
    let all = whole.chain([("instructions".to_owned(), pieces)]);
    all.map(|(name, bytes)| ("policy_object", name, bytes)).collect()
}

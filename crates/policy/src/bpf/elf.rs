//! Reads an object: the two functions, with what they call and read by name put in.

use object::read::elf::{ElfFile64, FileHeader};
use object::{
    LittleEndian, Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget,
};

use super::insn::{CALL, Insn, JMP, LD_IMM64, LEN, PSEUDO_CALL, VARIABLE};
use super::names::{Section, variable};
use super::refused::{Reason, Refused};

type File<'d> = ElfFile64<'d, LittleEndian>;

/// Both functions of an object: `init`, `pkt`.
pub(super) fn read(bytes: &[u8]) -> Result<[Vec<Insn>; 2], Refused> {
    let whole = |reason| Refused { section: None, at: None, reason };
    let file = File::parse(bytes).map_err(|_| whole(Reason::NoObject))?;
    if file.elf_header().e_machine(LittleEndian) != object::elf::EM_BPF {
        return Err(whole(Reason::NoObject));
    }
    Ok([section(&file, Section::Init)?, section(&file, Section::Packet)?])
}

fn section(file: &File<'_>, which: Section) -> Result<Vec<Insn>, Refused> {
    let refuse = |at, reason| Refused { section: Some(which), at, reason };
    let section =
        file.section_by_name(which.name()).ok_or_else(|| refuse(None, Reason::NoSection))?;
    let bytes = section.data().map_err(|_| refuse(None, Reason::NoObject))?;
    let (words, rest) = bytes.as_chunks::<LEN>();
    if words.is_empty() || !rest.is_empty() {
        return Err(refuse(None, Reason::Length(bytes.len())));
    }
    if words.len() > super::MOST_INSTRUCTIONS {
        return Err(refuse(None, Reason::TooLong(words.len())));
    }
    let mut code: Vec<Insn> = words.iter().copied().map(Insn::parse).collect();
    let mut named = vec![false; code.len()];
    for (place, relocation) in section.relocations() {
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        let at = place / LEN;
        let bad = |reason| refuse(Some(at), reason);
        let insn = code.get_mut(at).filter(|_| place.is_multiple_of(LEN));
        let insn = insn.ok_or_else(|| refuse(None, Reason::BadRelocation))?;
        if std::mem::replace(&mut named[at], true) {
            return Err(bad(Reason::BadRelocation));
        }
        let RelocationTarget::Symbol(symbol) = relocation.target() else {
            return Err(bad(Reason::BadRelocation));
        };
        let symbol = file.symbol_by_index(symbol).map_err(|_| bad(Reason::BadRelocation))?;
        // What an object defines itself, as a table of constants, has no place here.
        let name = symbol.name_bytes().ok().filter(|_| symbol.is_undefined());
        let name = name.ok_or_else(|| bad(Reason::UnknownName))?;
        let RelocationFlags::Elf { r_type } = relocation.flags() else {
            return Err(bad(Reason::BadRelocation));
        };
        match (r_type, insn.code) {
            (object::elf::R_BPF_64_32, CALL_BY_NAME) if insn.src == PSEUDO_CALL => {
                let helper = which.helper(name).ok_or_else(|| bad(Reason::UnknownHelper))?;
                (insn.src, insn.imm) = (0, helper as i32); // three at most
            }
            (object::elf::R_BPF_64_64, LD_IMM64) if insn.src == 0 && insn.imm == 0 => {
                let variable = variable(name).ok_or_else(|| bad(Reason::UnknownName))?;
                (insn.src, insn.imm) = (VARIABLE, variable as i32); // two at most
            }
            _ => return Err(bad(Reason::BadRelocation)),
        }
    }
    // Resolved forms in an object that nobody resolved would be numbers of its own choice.
    for (at, (insn, named)) in code.iter().zip(named).enumerate() {
        match insn.code {
            CALL_BY_NAME if !named => return Err(refuse(Some(at), Reason::UnknownHelper)),
            LD_IMM64 if !named && insn.src != 0 => {
                return Err(refuse(Some(at), Reason::Unused));
            }
            _ => {}
        }
    }
    Ok(code)
}

const CALL_BY_NAME: u8 = JMP | CALL;

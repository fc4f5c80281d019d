//! Makes objects of instructions, without a compiler: for tests, fuzzers and whoever wants to
//! see what is refused.
//!
//! ```
//! use policy::bpf::assemble::{exit, mov, object};
//! use policy::bpf::{Clock, load};
//!
//! let clock = Clock { cycles_per_sec: 2_800_000_000, cycles_per_ms: 2_800_000 };
//! let declines = [mov(0, 1), exit()].concat();
//! assert!(load(&object(&declines, &declines), clock).is_ok());
//! let loops = [mov(0, 1), policy::bpf::assemble::goto(-1), exit()].concat();
//! let refused = load(&object(&declines, &loops), clock).err().unwrap();
//! assert_eq!(refused.to_string(), "pkt: instruction 1: a loop");
//! ```

use super::insn::{
    ALU64, CALL, EXIT, Insn, JA, JMP, LD_IMM64, LDX, MEM, MOV, PSEUDO_CALL, ST, STX, X,
};

/// An instruction, and the name that it wants, if it wants one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Line {
    /// The instruction, as an object has it.
    pub insn: Insn,
    /// What it calls, or reads.
    pub name: Option<&'static str>,
}

/// Instructions that belong together.
pub type Lines = Vec<Line>;

/// An instruction from its fields.
pub fn raw(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> Lines {
    vec![Line { insn: Insn { code, dst, src, off, imm }, name: None }]
}

/// `dst = imm`.
pub fn mov(dst: u8, imm: i32) -> Lines {
    arithmetic(MOV, dst, imm)
}

/// `dst = src`.
pub fn copy(dst: u8, src: u8) -> Lines {
    arithmetic_by(MOV, dst, src)
}

/// `dst op= imm`, 64 bits.
pub fn arithmetic(op: u8, dst: u8, imm: i32) -> Lines {
    raw(ALU64 | op, dst, 0, 0, imm)
}

/// `dst op= src`, 64 bits.
pub fn arithmetic_by(op: u8, dst: u8, src: u8) -> Lines {
    raw(ALU64 | op | X, dst, src, 0, 0)
}

/// `dst = *(src + off)`, of 1, 2, 4 or 8 bytes.
pub fn load(len: usize, dst: u8, src: u8, off: i16) -> Lines {
    raw(LDX | MEM | width(len), dst, src, off, 0)
}

/// `*(dst + off) = src`.
pub fn store(len: usize, dst: u8, off: i16, src: u8) -> Lines {
    raw(STX | MEM | width(len), dst, src, off, 0)
}

/// `*(dst + off) = imm`.
pub fn put(len: usize, dst: u8, off: i16, imm: i32) -> Lines {
    raw(ST | MEM | width(len), dst, 0, off, imm)
}

/// `goto off`: 0 is the next instruction.
pub fn goto(off: i16) -> Lines {
    raw(JMP | JA, 0, 0, off, 0)
}

/// `if dst op imm goto off`.
pub fn jump(op: u8, dst: u8, imm: i32, off: i16) -> Lines {
    raw(JMP | op, dst, 0, off, imm)
}

/// `if dst op src goto off`.
pub fn jump_by(op: u8, dst: u8, src: u8, off: i16) -> Lines {
    raw(JMP | op | X, dst, src, off, 0)
}

/// A call of what has this name.
pub fn call(name: &'static str) -> Lines {
    let insn = Insn { code: JMP | CALL, dst: 0, src: PSEUDO_CALL, off: 0, imm: -1 };
    vec![Line { insn, name: Some(name) }]
}

/// `dst = &name`.
pub fn variable(dst: u8, name: &'static str) -> Lines {
    let mut lines = wide(dst, 0);
    lines[0].name = Some(name);
    lines
}

/// `dst = number`, two instructions.
pub fn wide(dst: u8, number: u64) -> Lines {
    let [low, high] = [number as u32, (number >> 32) as u32].map(|half| half as i32);
    [raw(LD_IMM64, dst, 0, 0, low), raw(0, 0, 0, 0, high)].concat()
}

/// The end.
pub fn exit() -> Lines {
    raw(JMP | EXIT, 0, 0, 0, 0)
}

/// An object with these two functions.
pub fn object(init: &[Line], pkt: &[Line]) -> Vec<u8> {
    let mut names: Vec<&str> = Vec::new();
    for name in init.iter().chain(pkt).filter_map(|line| line.name) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut strings = b"\0.symtab\0.strtab\0init\0pkt\0.relinit\0.relpkt\0".to_vec();
    let named = |strings: &[u8], name: &str| {
        let of = [b"\0", name.as_bytes(), b"\0"].concat();
        let at = strings.windows(of.len()).position(|part| part == of);
        at.map_or(0, |at| at as u32 + 1)
    };
    let mut symbols = vec![0; SYMBOL];
    for name in &names {
        symbols.extend((strings.len() as u32).to_le_bytes());
        symbols.extend([GLOBAL << 4, 0, 0, 0]);
        symbols.extend([0; 16]);
        strings.extend([name.as_bytes(), b"\0"].concat());
    }
    let code =
        |lines: &[Line]| -> Vec<u8> { lines.iter().flat_map(|line| line.insn.emit()).collect() };
    let relocations = |lines: &[Line]| -> Vec<u8> {
        let wanted =
            lines.iter().zip(0_u64..).filter_map(|(line, at)| Some((line, at, line.name?)));
        let entry = wanted.flat_map(|(line, at, name)| {
            let symbol = names.iter().position(|known| *known == name).unwrap_or(0) as u64 + 1;
            let kind = if line.insn.code == LD_IMM64 { 1 } else { 10 };
            [8 * at, symbol << 32 | kind].map(u64::to_le_bytes).concat()
        });
        entry.collect()
    };
    // Name; type, flags, link, info, length of an entry; content.
    let sections: [(&str, [u32; 5], Vec<u8>); 6] = [
        ("init", [1, 6, 0, 0, 0], code(init)),
        ("pkt", [1, 6, 0, 0, 0], code(pkt)),
        (".relinit", [9, 0, 5, 1, 16], relocations(init)),
        (".relpkt", [9, 0, 5, 2, 16], relocations(pkt)),
        (".symtab", [2, 0, 6, 1, SYMBOL as u32], symbols),
        (".strtab", [3, 0, 0, 0, 0], strings.clone()),
    ];
    let mut content = Vec::new();
    let mut headers = vec![0; SECTION];
    for (name, [kind, flags, link, info, entry], bytes) in &sections {
        headers.extend([named(&strings, name), *kind].map(u32::to_le_bytes).concat());
        let at = (ELF + content.len()) as u64;
        let words = [u64::from(*flags), 0, at, bytes.len() as u64];
        headers.extend(words.map(u64::to_le_bytes).concat());
        headers.extend([*link, *info].map(u32::to_le_bytes).concat());
        headers.extend([8, u64::from(*entry)].map(u64::to_le_bytes).concat());
        content.extend(bytes);
        content.resize(content.len().next_multiple_of(8), 0);
    }
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    elf.extend([1, EM_BPF].map(u16::to_le_bytes).concat());
    elf.extend(1_u32.to_le_bytes());
    elf.extend([0, 0, (ELF + content.len()) as u64].map(u64::to_le_bytes).concat());
    elf.extend(0_u32.to_le_bytes());
    let count = sections.len() as u16;
    let sizes = [ELF as u16, 0, 0, SECTION as u16, count + 1, count];
    elf.extend(sizes.map(u16::to_le_bytes).concat());
    [elf, content, headers].concat()
}

fn width(len: usize) -> u8 {
    match len {
        1 => 0x10,
        2 => 0x08,
        4 => 0x00,
        _ => 0x18,
    }
}

const ELF: usize = 64;
const SECTION: usize = 64;
const SYMBOL: usize = 24;
const GLOBAL: u8 = 1;
const EM_BPF: u16 = 247;

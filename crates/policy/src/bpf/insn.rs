//! An instruction, and the numbers of which it is made (RFC 9669).
//!
//! ```text
//!  0      1         2        4           8
//!  │ code │ src dst │ offset │ immediate │   little-endian; a wide one has a second such word
//! ```

/// An instruction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Insn {
    /// What is to be done: class, operation, source.
    pub code: u8,
    /// The register that changes.
    pub dst: u8,
    /// The register that is read.
    pub src: u8,
    /// Of a load and a store in bytes; of a jump in instructions.
    pub off: i16,
    /// A number.
    pub imm: i32,
}

/// Bytes of an instruction.
pub const LEN: usize = 8;

impl Insn {
    /// From an object's bytes.
    pub fn parse(bytes: [u8; LEN]) -> Insn {
        let [code, registers, o0, o1, i0, i1, i2, i3] = bytes;
        Insn {
            code,
            dst: registers & 0xf,
            src: registers >> 4,
            off: i16::from_le_bytes([o0, o1]),
            imm: i32::from_le_bytes([i0, i1, i2, i3]),
        }
    }

    /// As an object has it.
    pub fn emit(self) -> [u8; LEN] {
        let ([o0, o1], [i0, i1, i2, i3]) = (self.off.to_le_bytes(), self.imm.to_le_bytes());
        [self.code, self.src << 4 | self.dst & 0xf, o0, o1, i0, i1, i2, i3]
    }

    /// Load, store, arithmetic or jump.
    #[inline]
    pub fn class(self) -> u8 {
        self.code & 0x07
    }

    /// Of arithmetic and jumps.
    #[inline]
    pub fn op(self) -> u8 {
        self.code & 0xf0
    }

    /// The second operand is a register.
    #[inline]
    pub fn by_register(self) -> bool {
        self.code & X != 0
    }

    /// Bytes that a load or a store moves.
    #[inline]
    pub fn size(self) -> usize {
        match self.code & 0x18 {
            0x00 => 4,
            0x08 => 2,
            0x10 => 1,
            _ => 8,
        }
    }

    /// The immediate as 64 bits have it.
    #[inline]
    pub fn wide_imm(self) -> u64 {
        i64::from(self.imm) as u64
    }
}

/// Class: load of a wide immediate.
pub const LD: u8 = 0x00;
/// Class: load from memory.
pub const LDX: u8 = 0x01;
/// Class: store of an immediate.
pub const ST: u8 = 0x02;
/// Class: store of a register.
pub const STX: u8 = 0x03;
/// Class: arithmetic of 32 bits.
pub const ALU: u8 = 0x04;
/// Class: jumps.
pub const JMP: u8 = 0x05;
/// Class: arithmetic of 64 bits.
pub const ALU64: u8 = 0x07;

/// The second operand is a register.
pub const X: u8 = 0x08;
/// Mode of plain loads and stores.
pub const MEM: u8 = 0x60;
/// A wide immediate: of this instruction and the next.
pub const LD_IMM64: u8 = 0x18;

/// Arithmetic.
pub const ADD: u8 = 0x00;
/// Arithmetic.
pub const SUB: u8 = 0x10;
/// Arithmetic.
pub const MUL: u8 = 0x20;
/// Arithmetic, unsigned.
pub const DIV: u8 = 0x30;
/// Arithmetic.
pub const OR: u8 = 0x40;
/// Arithmetic.
pub const AND: u8 = 0x50;
/// Arithmetic.
pub const LSH: u8 = 0x60;
/// Arithmetic, zeros come in.
pub const RSH: u8 = 0x70;
/// Arithmetic.
pub const NEG: u8 = 0x80;
/// Arithmetic, unsigned.
pub const MOD: u8 = 0x90;
/// Arithmetic.
pub const XOR: u8 = 0xa0;
/// Arithmetic.
pub const MOV: u8 = 0xb0;
/// Arithmetic, the sign comes in.
pub const ARSH: u8 = 0xc0;
/// Arithmetic: byte order, [`X`] for big-endian.
pub const END: u8 = 0xd0;

/// Jump.
pub const JA: u8 = 0x00;
/// Jump.
pub const JEQ: u8 = 0x10;
/// Jump, unsigned.
pub const JGT: u8 = 0x20;
/// Jump, unsigned.
pub const JGE: u8 = 0x30;
/// Jump, if bits are in common.
pub const JSET: u8 = 0x40;
/// Jump.
pub const JNE: u8 = 0x50;
/// Jump, signed.
pub const JSGT: u8 = 0x60;
/// Jump, signed.
pub const JSGE: u8 = 0x70;
/// Call of a helper.
pub const CALL: u8 = 0x80;
/// The end.
pub const EXIT: u8 = 0x90;
/// Jump, unsigned.
pub const JLT: u8 = 0xa0;
/// Jump, unsigned.
pub const JLE: u8 = 0xb0;
/// Jump, signed.
pub const JSLT: u8 = 0xc0;
/// Jump, signed.
pub const JSLE: u8 = 0xd0;

/// In an object, what a call has as its source register: by a name.
pub const PSEUDO_CALL: u8 = 1;
/// In a resolved program, what [`LD_IMM64`] has as its source register: the immediate is the
/// number of a variable.
pub const VARIABLE: u8 = 0xf;
/// Registers.
pub const REGISTERS: usize = 11;
/// The register that points behind the stack; it is never written.
pub const FRAME: u8 = 10;
/// Bytes of the stack.
pub const STACK: usize = 512;

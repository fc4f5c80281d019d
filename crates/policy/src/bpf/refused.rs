//! Why an object is refused.

use std::fmt;

use super::names::Section;

/// An object is refused: where, and why.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Refused {
    /// In which function; `None` for the object as a whole.
    pub section: Option<Section>,
    /// At which of its instructions, counted as `llvm-objdump -d` does.
    pub at: Option<usize>,
    /// Why.
    pub reason: Reason,
}

/// Why an object is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reason {
    /// It is not an ELF object of this instruction set.
    NoObject,
    /// It lacks the function.
    NoSection,
    /// The function has no whole number of instructions, or none.
    Length(usize),
    /// More than [`super::MOST_INSTRUCTIONS`].
    TooLong(usize),
    /// A name is wanted that there is not.
    UnknownName,
    /// A name, in a place that takes none of its kind.
    BadRelocation,
    /// A call of something else than a helper.
    UnknownHelper,
    /// No instruction of sets v1 and v2 has this code.
    Opcode(u8),
    /// There is no such register, or it is not to be written.
    Register(u8),
    /// A field that the instruction does not use is not zero.
    Unused,
    /// It jumps to where no instruction begins.
    Jump,
    /// It is part of a loop.
    Loop,
    /// Nothing leads to it.
    Unreachable,
    /// A register is read that was not written on every way to here.
    Uninitialised(u8),
    /// A part of the stack is read that was not written on every way to here.
    UninitialisedStack(i64),
    /// A number is no address.
    NoAddress(u8),
    /// What is there is not to be written.
    ReadOnly(Region),
    /// It may lie outside: the first and the last byte that it may touch.
    Outside(Region, i64, i64),
    /// The descriptor has no such field for programs: place and length.
    Field(i64, usize),
    /// The stack is used at one place that is known, aligned.
    StackPlace,
    /// Addresses can be moved by numbers, and nothing else.
    AddressArithmetic(Region),
    /// Addresses are not to be compared, but with 0.
    AddressCompared(Region),
    /// An address would leave the program.
    AddressLeaks(Region),
    /// The divisor may be 0.
    DivisionByZero,
    /// It shifts by more bits than there are.
    Shift(i32),
    /// A helper's argument is of another kind: which, from 1.
    Argument(u8),
}

/// Memory that a program can have an address of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Region {
    /// What the function is called with.
    Context,
    /// The flow's 64 bytes.
    Cookie,
    /// The packet's descriptor.
    Descriptor,
    /// The buffer in which the packet lies; counted from its address.
    Packet,
    /// The function's own; counted from its end, downwards.
    Stack,
    /// One of the clock's.
    Variable(u8),
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Region::Context => "the context",
            Region::Cookie => "the cookie",
            Region::Descriptor => "the packet's descriptor",
            Region::Packet => "the packet",
            Region::Stack => "the stack",
            Region::Variable(_) => "a variable",
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Reason::NoObject => f.write_str("no ELF object for eBPF"),
            Reason::NoSection => f.write_str("the section is missing"),
            Reason::Length(bytes) => write!(f, "{bytes} bytes are no instructions"),
            Reason::TooLong(n) => {
                write!(f, "{n} instructions, and {} are the most", super::MOST_INSTRUCTIONS)
            }
            Reason::UnknownName => f.write_str("nothing has the name that is wanted here"),
            Reason::BadRelocation => f.write_str("a name of another kind is wanted here"),
            Reason::UnknownHelper => f.write_str("the call is of no helper"),
            Reason::Opcode(code) => write!(f, "unknown instruction {code:#04x}"),
            Reason::Register(10) => f.write_str("r10 is not to be written"),
            Reason::Register(n) => write!(f, "there is no register r{n}"),
            Reason::Unused => f.write_str("a field that is not used is not 0"),
            Reason::Jump => f.write_str("the jump leads to no instruction"),
            Reason::Loop => f.write_str("a loop"),
            Reason::Unreachable => f.write_str("nothing leads here"),
            Reason::Uninitialised(n) => write!(f, "r{n} may have no value"),
            Reason::UninitialisedStack(at) => {
                write!(f, "the stack may have no value at {at}")
            }
            Reason::NoAddress(n) => write!(f, "r{n} is no address"),
            Reason::ReadOnly(region) => write!(f, "{region} is not to be written"),
            Reason::Outside(region, i64::MIN, _) | Reason::Outside(region, _, i64::MAX) => {
                write!(f, "nothing bounds the place in {region}")
            }
            Reason::Outside(region, from, to) => {
                write!(f, "bytes {from} to {to} are not all in {region}")
            }
            Reason::Field(at, len) => {
                write!(f, "the packet's descriptor has no field of {len} bytes at {at}")
            }
            Reason::StackPlace => f.write_str("one aligned place of the stack has to be named"),
            Reason::AddressArithmetic(region) => {
                write!(f, "an address in {region} is no number to calculate with")
            }
            Reason::AddressCompared(region) => {
                write!(f, "an address in {region} is compared with something else than 0")
            }
            Reason::AddressLeaks(region) => write!(f, "an address in {region} would leak"),
            Reason::DivisionByZero => f.write_str("the divisor may be 0"),
            Reason::Shift(by) => write!(f, "a shift by {by} bits"),
            Reason::Argument(n) => write!(f, "argument {n} is of another kind"),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(section) = self.section {
            write!(f, "{}: ", section.name())?;
        }
        if let Some(at) = self.at {
            write!(f, "instruction {at}: ")?;
        }
        self.reason.fmt(f)
    }
}

impl std::error::Error for Refused {}

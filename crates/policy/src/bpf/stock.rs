//! The five programs that the stock policies name, compiled from our own sources (`programs/`,
//! `scripts/programs.sh`).

/// A program that Rutter includes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stock {
    /// The number by which the stock policies name it.
    pub index: u8,
    /// Its name.
    pub name: &'static str,
    /// The ELF object.
    pub object: &'static [u8],
}

/// The five, in the order of their numbers.
pub const STOCK: [Stock; 5] = [
    Stock { index: 0, name: "granted", object: include_bytes!("../../programs/granted.bpf") },
    Stock { index: 1, name: "declined", object: include_bytes!("../../programs/declined.bpf") },
    Stock { index: 2, name: "grantedv2", object: include_bytes!("../../programs/grantedv2.bpf") },
    Stock { index: 3, name: "web", object: include_bytes!("../../programs/web.bpf") },
    Stock {
        index: 4,
        name: "tcp-services",
        object: include_bytes!("../../programs/tcp-services.bpf"),
    },
];

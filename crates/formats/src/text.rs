//! Text tables: one `prefix next-hop` a line, as routing tables are handed
//! around, and pyasn's `.dat` files, which are the same with `;` comments.
//!
//! ```text
//!   # comment             a field that starts with # or ; begins a comment
//!   192.0.2.0/24  a       blanks or tabs between the fields
//!   2001:db8::/32         no next hop: printed as `-`
//!   198.51.100.7          a bare address is a host route
//!   192.0.2.0  24  64500  address, length and AS apart, as CAIDA's tables have them
//! ```

use std::io::{self, BufRead};

use crate::memory::NoMemory;
use crate::prefix::AnyPrefix;
use crate::report::{Damage, Fault, Place};
use crate::table::Builder;

/// Reads every line of `input` into `builder`; `tick` is called now and then.
pub(crate) fn read<R: BufRead>(
    mut input: R,
    builder: &mut Builder,
    mut tick: impl FnMut(&R, usize),
) -> Result<(), NoMemory> {
    let mut line = Vec::with_capacity(256);
    for number in 1.. {
        if number % 4096 == 0 {
            tick(&input, builder.len());
        }
        line.clear();
        builder.grow()?;
        let fault = match next_line(&mut input, &mut line) {
            Ok(End::File) if line.is_empty() => break,
            Ok(End::Line | End::File) => parse(&line, number == 1, builder).err(),
            Ok(End::TooLong) => Some(Fault::LongLine { limit: MAX_LINE }),
            // The line so far may be cut short: `10.0.0.0/2` of `10.0.0.0/24`.
            Err(error) => {
                let fault = Fault::Stream(error.to_string());
                builder.report.damage(Damage { place: Place::Line(number), fault });
                break;
            }
        };
        if let Some(fault) = fault {
            builder.report.damage(Damage { place: Place::Line(number), fault });
        }
    }
    Ok(())
}

fn parse(line: &[u8], first: bool, builder: &mut Builder) -> Result<(), Fault> {
    let line = match line {
        [0xef, 0xbb, 0xbf, rest @ ..] if first => rest, // a byte-order mark
        line => line,
    };
    let mut fields = line
        .split(u8::is_ascii_whitespace)
        .filter(|field| !field.is_empty())
        .take_while(|field| !matches!(field[0], b'#' | b';'));
    let Some(prefix) = fields.next() else { return Ok(()) };
    let mut hop = fields.next();
    let third = fields.next();
    let apart = third.is_some() && !prefix.contains(&b'/');
    let mut joined = [0; MAX_PREFIX];
    let prefix = match hop.filter(|_| apart).and_then(|len| join(prefix, len, &mut joined)) {
        Some(prefix) => {
            hop = third;
            prefix
        }
        None if third.is_some() => return Err(Fault::ThirdField),
        None => prefix,
    };
    if fields.next().is_some() {
        return Err(Fault::ThirdField);
    }
    let hop = match hop {
        Some(hop) if hop.len() > MAX_HOP => return Err(Fault::LongHop { bytes: hop.len() }),
        Some(hop) => Some(printable(hop).ok_or(Fault::HopText)?),
        None => None,
    };
    let (prefix, masked) =
        AnyPrefix::parse(prefix, builder.mask).map_err(|fault| named(prefix, fault))?;
    builder.report.masked += u64::from(masked);
    builder.add(prefix, hop)
}

/// `address/length` of two fields; `None` where the second is no length.
fn join<'j>(addr: &[u8], len: &[u8], joined: &'j mut [u8; MAX_PREFIX]) -> Option<&'j [u8]> {
    let digits = (1..=3).contains(&len.len()) && len.iter().all(u8::is_ascii_digit);
    let all = addr.len() + 1 + len.len();
    if !digits || all > joined.len() {
        return None;
    }
    joined[..addr.len()].copy_from_slice(addr);
    joined[addr.len()] = b'/';
    joined[addr.len() + 1..all].copy_from_slice(len);
    Some(&joined[..all])
}

/// What is no prefix, by its name where that is easily seen.
fn named(field: &[u8], fault: Fault) -> Fault {
    let starts = field.first().is_some_and(|byte| byte.is_ascii_hexdigit() || *byte == b'"');
    match fault {
        Fault::Address | Fault::Length if starts && field.contains(&b',') => Fault::Commas,
        Fault::Address if starts && field.contains(&b'-') && field.contains(&b'.') => Fault::Range,
        fault => fault,
    }
}

/// Text that may be printed on a terminal.
fn printable(hop: &[u8]) -> Option<&str> {
    core::str::from_utf8(hop).ok().filter(|hop| !hop.contains(char::is_control))
}

enum End {
    Line,
    File,
    TooLong,
}

/// Reads up to the end of a line, or of the file; passes over what exceeds
/// [`MAX_LINE`], so that a file without line ends cannot fill the memory.
fn next_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<End> {
    let mut end = End::Line;
    loop {
        let chunk = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            chunk => chunk?,
        };
        if chunk.is_empty() {
            return Ok(if matches!(end, End::TooLong) { end } else { End::File });
        }
        let newline = chunk.iter().position(|&byte| byte == b'\n');
        let piece = &chunk[..newline.unwrap_or(chunk.len())];
        if line.len() + piece.len() > MAX_LINE {
            end = End::TooLong;
        } else {
            line.extend_from_slice(piece);
        }
        let used = piece.len() + usize::from(newline.is_some());
        input.consume(used);
        if newline.is_some() {
            return Ok(end);
        }
    }
}

/// More than an address and a length have letters.
const MAX_PREFIX: usize = 64;

/// A next hop is any token of so many bytes at most.
const MAX_HOP: usize = 255;

/// Far beyond a prefix, a next hop and a comment.
const MAX_LINE: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Table;

    fn table(text: impl AsRef<[u8]>) -> Table {
        let mut builder = Builder::default();
        read(text.as_ref(), &mut builder, |_, _| ()).unwrap();
        builder.finish(None).unwrap()
    }

    fn faults(text: &str) -> Vec<String> {
        table(text).report.damage.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn fields_comments_and_line_ends() {
        let text = "\u{feff}# head\r\n; more\n\n10.0.0.0/8\ta\r\n  10.1.0.0/16   b  # note\n\
            10.2.0.0/16 ;c\n192.0.2.1\ta#b ;c d e\n2001:db8::/32 a";
        let table = table(text);
        assert_eq!((table.v4.len(), table.v6.len()), (4, 1));
        assert!(table.report.is_sound());
        let names: Vec<_> = table.hops.iter().take(4).map(|(_, name)| name).collect();
        assert_eq!(names, [Some("a"), Some("b"), Some("a#b"), None]);
    }

    #[test]
    fn each_damaged_line_is_named_and_the_rest_is_read() {
        let long = "x".repeat(256);
        let text = format!(
            "10.0.0.0/8 a b\n10/8 a\n10.0.0.1/8 a\n10.0.0.0/8 {long}\n10.0.0.0/8 a\n\
             default a\n10.0.0.0/40 a"
        );
        assert_eq!(table(&text).v4.len(), 1);
        assert_eq!(
            faults(&text),
            [
                "line 1: expected `prefix next-hop`, found a third field",
                "line 2: expected an IPv4 or IPv6 prefix such as 192.0.2.0/24",
                "line 3: host bits are set to the right of /8",
                "line 4: a next hop of 256 bytes exceeds 255",
                "line 6: expected an IPv4 or IPv6 prefix such as 192.0.2.0/24",
                "line 7: length /40 exceeds /32",
            ]
        );
    }

    #[test]
    fn a_length_may_stand_apart_from_its_address() {
        let table = table("192.0.2.0\t24\t64500\n2001:db8:: 32 64501_64502\n10.0.0.0 8 a # b\n");
        assert!(table.report.is_sound(), "{:?}", table.report);
        assert_eq!(table.v4.lookup(0xc000_0205).map(|(prefix, _)| prefix.len()), Some(24));
        let (_, hop) = table.v6.lookup(0x2001_0db8 << 96).unwrap();
        assert_eq!(table.hops.name(hop), Some("64501_64502"));
        assert_eq!(
            faults("10.0.0.0 40 a\n10.0.0.0 8 a b\n10.0.0.0/8 8 a\n10.0.0.0 gw a\n10.0.0.0 a"),
            [
                "line 1: length /40 exceeds /32",
                "line 2: expected `prefix next-hop`, found a third field",
                "line 3: expected `prefix next-hop`, found a third field",
                "line 4: expected `prefix next-hop`, found a third field",
            ]
        );
    }

    #[test]
    fn lists_of_other_forms_are_named() {
        assert_eq!(table("10.0.0.0/8\n192.0.2.0/24\n2001:db8::/32\n").len(), 3);
        let found = faults("10.0.0.0/8,64500\n1.0.0.0-1.0.0.255\n\"10.0.0.0\",8\n");
        let commas = "fields are separated by commas; expected blanks: `prefix next-hop`";
        assert_eq!(found[0], format!("line 1: {commas}"));
        assert_eq!(
            found[1],
            "line 2: a range of addresses; expected a prefix such as 192.0.2.0/24"
        );
        assert_eq!(found[2], format!("line 3: {commas}"));
    }

    #[test]
    fn bytes_that_are_no_text_and_lines_without_end() {
        let table = table(
            [b"10.0.0.0/8 \xff\n10.0.0.0/8 \x1b[2J\n", &[b'1'; 200_000][..], b"\n::/0 a"].concat(),
        );
        assert_eq!((table.v6.len(), table.report.damaged), (1, 3));
        assert_eq!(table.report.damage[2].to_string(), "line 3: a line longer than 65536 bytes");
    }

    #[test]
    fn the_last_of_equal_prefixes_wins_and_is_counted() {
        let table = table("10.0.0.0/8 a\n10.0.0.0/8 b\n::/0 a\n::/0 c\n");
        let (_, hop) = table.v4.lookup(0x0a00_0001).unwrap();
        assert_eq!(table.hops.name(hop), Some("b"));
        assert_eq!((table.report.duplicates, table.report.damaged), (2, 0));
    }

    #[test]
    fn prefixes_without_next_hops_get_255_nameless_ids() {
        let text: String =
            (0..2000).map(|i| format!("10.{}.{}.0/24\n", i / 256, i % 256)).collect();
        let nameless = table(&text);
        assert_eq!(nameless.hops.len(), 255);
        let mut seen = std::collections::BTreeSet::new();
        seen.extend(nameless.v4.iter().map(|(_, hop)| hop.0));
        assert!(seen.len() > 250 && seen.iter().all(|id| (1..=255).contains(id)));
        // Beside named ones they stand behind them.
        let mixed = table(text + "10.0.0.0/8 gw");
        assert_eq!(mixed.hops.len(), 256);
        let (_, hop) = mixed.v4.lookup(0x0aff_0000).unwrap();
        assert_eq!(mixed.hops.name(hop), Some("gw"));
    }
}

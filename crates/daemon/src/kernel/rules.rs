//! Policy rules (`ip rule`) of other programs. The data plane ignores them: it looks up
//! destinations in the table of the interface that a packet came in by. They are reported, so that
//! the difference surprises nobody.

use std::fmt::Write;
use std::io;

use netlink::message::{attributes, u32_at};
use netlink::names::*;

use super::OUR_PROTOCOL;
use super::link::{Rtnetlink, ip};

impl Rtnetlink {
    /// The rules that the data plane ignores, in the notation of `ip rule`.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn foreign_rules(&mut self) -> io::Result<Vec<String>> {
        let mut all = Vec::new();
        for family in [AF_INET, AF_INET6] {
            all.extend(self.rules(family)?.iter().filter_map(|answer| foreign(answer)));
        }
        Ok(all)
    }
}

/// A rule in words, unless it is Rutter's, the kernel's for VRF devices, or one that sends
/// everything to the kernel's own tables.
fn foreign(answer: &[u8]) -> Option<String> {
    let (&header, rest) = answer.split_first_chunk::<12>()?;
    let [_, to_len, from_len, tos, table, _, _, action, flags, ..] = header;
    let mut rule = Rule { table: table.into(), ..Rule::default() };
    let (mut from, mut to) = (String::from("all"), String::new());
    for (kind, value) in attributes(rest) {
        match kind {
            FRA_PROTOCOL if value == [OUR_PROTOCOL] => return None,
            FRA_L3MDEV if value == [1] => return None,
            FRA_SRC => from = prefix(value, from_len),
            FRA_DST => to = format!(" to {}", prefix(value, to_len)),
            FRA_IIFNAME => rule.more(format_args!(" iif {}", text(value))),
            FRA_OIFNAME => rule.more(format_args!(" oif {}", text(value))),
            FRA_PRIORITY => rule.priority = u32_at(value, 0),
            FRA_TABLE => rule.table = u32_at(value, 0),
            FRA_FWMARK if u32_at(value, 0) != 0 => {
                rule.more(format_args!(" fwmark {:#x}", u32_at(value, 0)))
            }
            FRA_SUPPRESS_PREFIXLEN if u32_at(value, 0) != u32::MAX => {
                rule.more(format_args!(" suppress_prefixlength {}", u32_at(value, 0)));
            }
            FRA_UID_RANGE | FRA_IP_PROTO | FRA_SPORT_RANGE | FRA_DPORT_RANGE => {
                rule.more(format_args!(" …"));
            }
            _ => {}
        }
    }
    if tos != 0 {
        rule.more(format_args!(" tos {tos:#x}"));
    }
    let inverted = flags & INVERT != 0;
    let everything = from == "all" && to.is_empty() && rule.others.is_empty() && !inverted;
    if everything && action == FR_ACT_TO_TBL && KERNELS.contains(&rule.table) {
        return None;
    }
    let does =
        if action == FR_ACT_TO_TBL { format!("lookup {}", rule.table) } else { "…".into() };
    let not = if inverted { "not " } else { "" };
    Some(format!("{}: {not}from {from}{to}{} {does}", rule.priority, rule.others))
}

#[derive(Default)]
struct Rule {
    priority: u32,
    table: u32,
    /// Further conditions.
    others: String,
}

impl Rule {
    fn more(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = self.others.write_fmt(text); // writing to a String cannot fail
    }
}

fn prefix(value: &[u8], length: u8) -> String {
    ip(value).map_or_else(|| "?".into(), |address| format!("{address}/{length}"))
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).trim_end_matches('\0').into()
}

/// The kernel's own tables.
const KERNELS: [u32; 3] = [RT_TABLE_DEFAULT, RT_TABLE_MAIN, RT_TABLE_LOCAL];
/// In the lowest byte of the flags.
const INVERT: u8 = FIB_RULE_INVERT as u8;

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(header: [u8; 9], all: &[(u16, &[u8])]) -> Option<String> {
        let mut bytes = header.to_vec();
        bytes.resize(12, 0);
        for (kind, value) in all {
            bytes.extend(((4 + value.len()) as u16).to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(*value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        foreign(&bytes)
    }

    #[test]
    fn only_what_others_made_is_told() {
        let (main, all) = (254_u32.to_ne_bytes(), u32::MAX.to_ne_bytes());
        let kernels = [(FRA_TABLE, &main[..]), (FRA_SUPPRESS_PREFIXLEN, &all[..])];
        assert_eq!(rule([2, 0, 0, 0, 254, 0, 0, 1, 0], &kernels), None);
        assert_eq!(rule([2, 0, 0, 0, 0, 0, 0, 1, 0], &[(FRA_L3MDEV, &[1])]), None);
        let (table, ours) = (100_u32.to_ne_bytes(), [OUR_PROTOCOL]);
        let made = [(FRA_TABLE, &table[..]), (FRA_IIFNAME, b"p0\0"), (FRA_PROTOCOL, &ours)];
        assert_eq!(rule([2, 0, 0, 0, 100, 0, 0, 1, 0], &made), None);
        let told = rule([2, 0, 0, 0, 100, 0, 0, 1, 0], &made[..2]);
        assert_eq!(told.unwrap(), "0: from all iif p0 lookup 100");
        let priority = 7_u32.to_ne_bytes();
        let all = [(FRA_PRIORITY, &priority[..]), (FRA_SRC, &[10, 0, 0, 0]), (FRA_TABLE, &table)];
        let told = rule([2, 0, 8, 0x10, 100, 0, 0, 1, 2], &all);
        assert_eq!(told.unwrap(), "7: not from 10.0.0.0/8 tos 0x10 lookup 100");
        assert!(rule([2, 0, 0, 0, 0, 0, 0, 6, 0], &[]).is_some(), "a blackhole rule");
        assert_eq!(foreign(&[2, 0, 0]), None);
    }
}

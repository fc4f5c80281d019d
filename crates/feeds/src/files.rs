//! Routes of a table file, or a generated table, as events: for a data plane
//! without a kernel, for the lab, for tests.

use std::collections::HashMap;

use formats::Table;
use lookup::{Addr, Hop, Prefix};
use tables::event::{Event, How, Route, Source, Target};

/// The routes of `table` as routes of the kernel's `number`. `target` says, once
/// for every next hop, where it leads: it gets the hop's id and its name in the
/// file; routes of a next hop for which it has none are left out.
pub fn events<'t>(
    table: &'t Table,
    number: u32,
    mut target: impl FnMut(Hop, Option<&str>) -> Option<Target> + 't,
) -> impl Iterator<Item = Event> + 't {
    let mut known: HashMap<Hop, Option<Target>> = HashMap::new();
    let v4 = table.v4.iter().map(|(prefix, hop)| (net(prefix), hop));
    let v6 = table.v6.iter().map(|(prefix, hop)| (net(prefix), hop));
    v4.chain(v6).filter_map(move |(net, hop)| {
        let known = known.entry(hop);
        let target = known.or_insert_with(|| target(hop, table.hops.name(hop))).clone()?;
        let (metric, protocol, source) = (0, STATIC, Source::Kernel);
        let route = Route { table: number, net, metric, protocol, source, target };
        Some(Event::Route(route, How::Replace))
    })
}

fn net<A: Addr>(prefix: Prefix<A>) -> tables::Net {
    prefix.into()
}

/// `RTPROT_STATIC`.
const STATIC: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use formats::Load;
    use tables::LinkId;
    use tables::event::Path;

    #[test]
    fn every_next_hop_is_asked_for_once() {
        let text: &[u8] = b"10.0.0.0/8 a\n10.1.0.0/16 b\n2001:db8::/32 a\n192.0.2.0/24 c\n";
        let table = Table::read(text, 0, &Load::default()).unwrap();
        let mut asked = Vec::new();
        let all: Vec<Event> = events(&table, 254, |_, name| {
            asked.push(name.unwrap().to_owned());
            let path = Path { link: LinkId(1), via: None, weight: 1, mtu: 0 };
            (name != Some("c")).then_some(Target::Path(path))
        })
        .collect();
        asked.sort();
        assert_eq!(asked, ["a", "b", "c"]);
        let nets: Vec<String> = all
            .iter()
            .map(|event| match event {
                Event::Route(route, How::Replace) => route.net.to_string(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(nets, ["10.0.0.0/8", "10.1.0.0/16", "2001:db8::/32"]);
    }
}

//! FRR's framing of netlink messages, and what they mean here.

use netlink::message::Messages;
use tables::event::{Event, FPM_OBJECTS, NextHopTo, Source, Target};

use crate::netlink::decode::decode;

/// Hands the event of each netlink message in whole FPM messages to `each`, `None`
/// for one that concerns nothing here. Returns the bytes of the whole messages;
/// `None` where some are no FPM message.
pub fn understand(heard: &[u8], mut each: impl FnMut(Option<Event>)) -> Option<usize> {
    let mut rest = heard;
    while let Some(&[version, kind, high, low]) = rest.first_chunk::<HEADER>() {
        let length = usize::from(u16::from_be_bytes([high, low]));
        if version != 1 || length < HEADER {
            return None;
        }
        let Some(message) = rest.get(HEADER..length) else { break }; // more is to come
        rest = &rest[length..];
        if kind == NETLINK {
            // Links, addresses and neighbours come from the kernel alone.
            let event = |message| decode(&message, Source::Fpm).and_then(of_fpm);
            Messages::new(message).map(event).for_each(&mut each);
        }
    }
    Some(heard.len() - rest.len())
}

/// Events that the FPM may cause; its next-hop objects are not the kernel's.
fn of_fpm(event: Event) -> Option<Event> {
    Some(match event {
        Event::Route(mut route, how) => {
            own_object(&mut route.target);
            Event::Route(route, how)
        }
        Event::RouteGone(mut route) => {
            own_object(&mut route.target);
            Event::RouteGone(route)
        }
        Event::NextHop(mut object) => {
            object.id |= FPM_OBJECTS;
            if let NextHopTo::Group(members) = &mut object.to {
                members.iter_mut().for_each(|(id, _)| *id |= FPM_OBJECTS);
            }
            Event::NextHop(object)
        }
        Event::NextHopGone(id) => Event::NextHopGone(id | FPM_OBJECTS),
        _ => return None,
    })
}

fn own_object(target: &mut Target) {
    if let Target::Object { id, .. } = target {
        *id |= FPM_OBJECTS;
    }
}

pub(super) const HEADER: usize = 4;
pub(super) const NETLINK: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use tables::event::NextHop;

    /// The kernel numbers its objects, too.
    #[test]
    fn objects_of_the_fpm_have_numbers_of_their_own() {
        let own = |id| id | FPM_OBJECTS;
        let group = |ids: [u32; 2]| NextHopTo::Group(ids.map(|id| (id, 1)).into());
        let object = |id, ids| Event::NextHop(NextHop { id, to: group(ids) });
        assert_eq!(of_fpm(object(7, [1, 2])), Some(object(own(7), [own(1), own(2)])));
        assert_eq!(of_fpm(Event::NextHopGone(7)), Some(Event::NextHopGone(own(7))));
    }
}

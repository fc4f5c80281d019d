//! Enums of several files that are one on the wire: `{"route_add":…}` is a request like any
//! other, though its variant is declared in the router's file.
//!
//! An application that came later has its messages in [`crate::apps`], behind a variant of its
//! own; the two that were there before keep their place, as old clients send them. `serde`'s
//! `untagged` would read the same bytes, but by way of a copy of all of them, and without
//! saying what is wrong with a message.

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer};
use serde::de::{VariantAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

/// Makes `$whole` of its own variants (those without `#[serde(skip)]`) and of those of other
/// enums, each behind a variant that is not seen on the wire. It has to be declared with
/// `#[serde(remote = "Self")]`, which leaves both traits to this.
macro_rules! flat {
    ($whole:ident: $($part:ident($type:ty)),+) => {
        impl serde::Serialize for $whole {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                match self {
                    $($whole::$part(part) => part.serialize(to),)+
                    own => $whole::serialize(own, to),
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for $whole {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                struct Whole;

                impl<'de> serde::de::Visitor<'de> for Whole {
                    type Value = $whole;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str(concat!("a ", stringify!($whole)))
                    }

                    fn visit_enum<A>(self, message: A) -> Result<$whole, A::Error>
                    where
                        A: serde::de::EnumAccess<'de>,
                    {
                        let (name, rest) = message.variant::<String>()?;
                        let message = $crate::flat::Named { name: &name, rest };
                        let message = serde::de::value::EnumAccessDeserializer::new(message);
                        $(if $crate::flat::names::<$type>().contains(&&*name) {
                            return <$type>::deserialize(message).map($whole::$part);
                        })+
                        $whole::deserialize(message)
                    }
                }

                from.deserialize_enum(stringify!($whole), &[], Whole)
            }
        }

        $(impl From<$type> for $whole {
            fn from(part: $type) -> $whole {
                $whole::$part(part)
            }
        })+
    };
}
pub(crate) use flat;

/// A message whose name has been read.
pub(crate) struct Named<'n, V> {
    pub name: &'n str,
    pub rest: V,
}

impl<'n, 'de, V: VariantAccess<'de>> EnumAccess<'de> for Named<'n, V> {
    type Error = V::Error;
    type Variant = V;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, V), V::Error> {
        let name: StrDeserializer<'n, V::Error> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, self.rest))
    }
}

/// The names of an enum's variants on the wire; none where `T` is no enum.
pub fn names<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    T::deserialize(Asking).err().map_or(&[], |Names(names)| names)
}

/// Gives no value: fails with the names that it is asked for.
struct Asking;

#[derive(Debug, thiserror::Error)]
#[error("names of variants")]
struct Names(&'static [&'static str]);

impl Error for Names {
    fn custom<T: std::fmt::Display>(_: T) -> Names {
        Names(&[])
    }
}

impl<'de> Deserializer<'de> for Asking {
    type Error = Names;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Names> {
        Err(Names(&[]))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Names> {
        Err(Names(variants))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::names;
    use crate::apps::{router, span, switch};
    use crate::{Family, Reply, Request, What};

    fn both_ways<T>(message: &T, wire: &str)
    where
        T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
    {
        assert_eq!(serde_json::to_string(message).unwrap(), wire);
        assert_eq!(&serde_json::from_str::<T>(wire).unwrap(), message);
    }

    /// As the first version of the messages had them.
    #[test]
    fn messages_of_router_and_switch_have_their_old_place() {
        let show = |what| Request::Show { what };
        both_ways(&show(What::Ports), r#"{"show":{"what":"ports"}}"#);
        both_ways(&show(router::What::Neighbours.into()), r#"{"show":{"what":"neighbours"}}"#);
        both_ways(
            &show(switch::What::Macs { which: Default::default(), limit: Some(7) }.into()),
            r#"{"show":{"what":{"macs":{"which":{"bridge":null,"vlan":null,"port":null,"mac":null},"limit":7}}}}"#,
        );
        let (vrf, family, options) = ("main".into(), Family::Ipv4, vec![("k".into(), "16".into())]);
        both_ways::<Request>(
            &router::Request::FibEngine { vrf, family, engine: "dxr".into(), options }.into(),
            r#"{"fib_engine":{"vrf":"main","family":"ipv4","engine":"dxr","options":[["k","16"]]}}"#,
        );
        let (mac, port, vlan) = ("02:00:00:00:00:09".into(), "p2".into(), 10);
        both_ways::<Request>(
            &switch::Request::MacAdd { mac, port, vlan }.into(),
            r#"{"mac_add":{"mac":"02:00:00:00:00:09","port":"p2","vlan":10}}"#,
        );
        both_ways(&Request::Config, r#""config""#);
        both_ways(&Request::Stop { remove: true }, r#"{"stop":{"remove":true}}"#);
        both_ways(&Reply::from(router::Reply::Fib(vec![])), r#"{"fib":[]}"#);
        both_ways(&Reply::from(switch::Reply::Macs((vec![], 3))), r#"{"macs":[[],3]}"#);
        both_ways(&Reply::Changed { warnings: vec![] }, r#"{"changed":{"warnings":[]}}"#);
    }

    #[test]
    fn what_is_wrong_with_a_message_is_named() {
        let wrong = |wire: &str| serde_json::from_str::<Request>(wire).unwrap_err().to_string();
        assert!(wrong(r#"{"mac_add":{"mac":"x"}}"#).contains("missing field `port`"));
        assert!(wrong(r#"{"show":{"what":"past"}}"#).contains("unknown variant `past`"));
        assert!(wrong(r#""raise""#).contains("unknown variant `raise`"));
    }

    #[test]
    fn no_name_is_two_messages() {
        let own = |whole: Result<(), super::Names>| whole.unwrap_err().0;
        for names in [
            [
                own(Request::deserialize(super::Asking).map(drop)),
                names::<router::Request>(),
                names::<switch::Request>(),
            ],
            [
                own(What::deserialize(super::Asking).map(drop)),
                names::<router::What>(),
                names::<switch::What>(),
            ],
            [
                own(Reply::deserialize(super::Asking).map(drop)),
                names::<router::Reply>(),
                names::<switch::Reply>(),
            ],
        ] {
            assert!(names.iter().all(|names| !names.is_empty()));
            let mut all = names.concat();
            all.sort_unstable();
            let count = all.len();
            all.dedup();
            assert_eq!(all.len(), count, "{all:?}");
        }
        assert_eq!(names::<span::Request>(), ["add", "del", "show"]);
        assert_eq!(names::<u8>(), [""; 0]);
    }
}

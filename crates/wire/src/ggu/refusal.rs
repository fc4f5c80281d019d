//! Why a message, or the rest of it, is not believed.

/// The registry: a line of documentation, and `Reason = name`. Numbers and names follow.
macro_rules! refusals {
    ($($(#[doc = $doc:literal])+ $reason:ident = $name:literal;)+) => {
        /// A check that failed, in the order in which they are made. Its number and name
        /// are those of a counter.
        #[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
        #[repr(u8)]
        pub enum Refusal {
            $($(#[doc = $doc])+ #[error($name)] $reason,)+
        }

        impl Refusal {
            /// All, by number.
            pub const ALL: &'static [Refusal] = &[$(Refusal::$reason),+];
            /// Their names, by number.
            pub const NAMES: &'static [&'static str] = &[$($name),+];
            /// What they mean, by number.
            pub const HELP: &'static [&'static str] = &[$(concat!($($doc),+)),+];

            /// The name.
            pub const fn name(self) -> &'static str {
                Refusal::NAMES[self as usize]
            }
        }
    };
}

refusals! {
    /// The IP header's version or lengths are wrong.
    Malformed = "malformed";
    /// It carries another protocol than UDP, or extension headers.
    NotUdp = "not_udp";
    /// It is a fragment.
    Fragment = "fragment";
    /// Its destination is no address that listens.
    NotForUs = "not_for_us";
    /// The source port or the destination port is another.
    Ports = "ports";
    /// UDP's length is not the number of bytes behind the IP header, padding included.
    Length = "udp_length";
    /// It has no UDP checksum.
    NoChecksum = "no_checksum";
    /// The UDP checksum is wrong.
    BadChecksum = "bad_checksum";
    /// It is shorter than a message's header.
    MessageCutOff = "message_cut_off";
    /// The version is not 1.
    Version = "version";
    /// A reserved byte of the message's header is not zero.
    Reserved = "reserved";
    /// Behind the last decision are bytes that are too few for another.
    TrailingBytes = "trailing_bytes";
    /// The type of a decision is unknown: nobody knows where the next one begins.
    UnknownType = "unknown_type";
    /// A reserved byte of a decision's header is not zero.
    DecisionReserved = "decision_reserved";
    /// A decision is cut off.
    DecisionCutOff = "decision_cut_off";
    /// A reserved byte of a program's parameters is not zero.
    ProgramReserved = "program_reserved";
    /// A cookie of more than 64 bytes.
    CookieTooLong = "cookie_too_long";
}

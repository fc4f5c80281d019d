//! The network interface below a port must not forward too: with af_packet or
//! af_xdp the same kernel sees the frames. While a [`Guard`] lives, whatever
//! the interface receives is dropped before the kernel's stack, and still seen
//! by packet sockets, which come before that place:
//!
//! ```text
//!  frame ─► driver ─► packet sockets (the port) ─► ingress chain: drop ─✕ ARP, IP, bridge …
//! ```
//!
//! The chain is nftables' own (`table netdev`, policy drop), made by netlink
//! with the owner flag: when the process ends, however it ends, the kernel
//! takes it away.

use std::io;

use netlink_sys::protocols::NETLINK_NETFILTER;

use super::netlink::{CREATE, Message, Netlink};

/// Drops what a network interface receives, for as long as it lives.
pub struct Guard {
    /// The connection that owns the table: closed, the table goes.
    _owner: Netlink,
}

impl Guard {
    /// Drops everything that the interface `name` receives.
    ///
    /// # Errors
    /// When the kernel has no nftables for devices, or refuses.
    pub fn new(name: &str) -> io::Result<Guard> {
        let mut owner = Netlink::open(NETLINK_NETFILTER)?;
        let table = format!("rutter-{name}");
        let messages = vec![
            (Message::new(BATCH_BEGIN, 0).body(&nfgen(0, NFNL_SUBSYS_NFTABLES)), false),
            (new_table(&table), true),
            (new_chain(&table, name, DROP), true),
            (Message::new(BATCH_END, 0).body(&nfgen(0, NFNL_SUBSYS_NFTABLES)), false),
        ];
        owner.batch(messages)?;
        Ok(Guard { _owner: owner })
    }
}

/// Marks what comes in by an interface, so that the kernel's answers to it can
/// be routed by the same tables (`fwmark_reflect`); for as long as it lives.
pub struct Marker {
    /// The connection that owns the table: closed, the table goes.
    _owner: Netlink,
}

impl Marker {
    /// Gives every packet that comes in by the interface `name` the mark `mark`.
    ///
    /// # Errors
    /// When the kernel has no nftables for devices, or refuses.
    pub fn new(name: &str, mark: u32) -> io::Result<Marker> {
        let mut owner = Netlink::open(NETLINK_NETFILTER)?;
        let table = format!("rutter-{name}");
        let messages = vec![
            (Message::new(BATCH_BEGIN, 0).body(&nfgen(0, NFNL_SUBSYS_NFTABLES)), false),
            (new_table(&table), true),
            (new_chain(&table, name, ACCEPT), true),
            (new_marking(&table, mark), true),
            (Message::new(BATCH_END, 0).body(&nfgen(0, NFNL_SUBSYS_NFTABLES)), false),
        ];
        owner.batch(messages)?;
        Ok(Marker { _owner: owner })
    }
}

/// `meta mark set MARK`.
fn new_marking(table: &str, mark: u32) -> Message {
    let expression = |list: Message, name: &str, data: &dyn Fn(Message) -> Message| {
        list.nest(LIST_ELEMENT, |one| one.text(EXPRESSION_NAME, name).nest(EXPRESSION_DATA, data))
    };
    let register = REGISTER.to_be_bytes();
    let immediate = |data: Message| {
        let data = data.attr(IMMEDIATE_REGISTER, &register);
        data.nest(IMMEDIATE_DATA, |value| value.attr(DATA_VALUE, &mark.to_ne_bytes()))
    };
    let meta =
        |data: Message| data.attr(META_KEY, &META_MARK.to_be_bytes()).attr(META_SOURCE, &register);
    Message::new(NFNL_SUBSYS_NFTABLES << 8 | NEW_RULE, CREATE | APPEND)
        .body(&nfgen(NETDEV, 0))
        .text(RULE_TABLE, table)
        .text(RULE_CHAIN, "ingress")
        .nest(RULE_EXPRESSIONS, |list| {
            let list = expression(list, "immediate", &immediate);
            expression(list, "meta", &meta)
        })
}

/// `struct nfgenmsg`.
fn nfgen(family: u8, resource: u16) -> [u8; 4] {
    let [high, low] = resource.to_be_bytes();
    [family, 0, high, low]
}

fn new_table(table: &str) -> Message {
    let message = Message::new(NFNL_SUBSYS_NFTABLES << 8, CREATE).body(&nfgen(NETDEV, 0));
    message.text(TABLE_NAME, table).attr(TABLE_FLAGS, &TABLE_OWNER.to_be_bytes())
}

fn new_chain(table: &str, device: &str, policy: u32) -> Message {
    let kind = NFNL_SUBSYS_NFTABLES << 8 | NEW_CHAIN;
    Message::new(kind, CREATE)
        .body(&nfgen(NETDEV, 0))
        .text(CHAIN_TABLE, table)
        .text(CHAIN_NAME, "ingress")
        .nest(CHAIN_HOOK, |hook| {
            let first = i32::MIN.to_be_bytes();
            let hook = hook.attr(HOOK_NUMBER, &INGRESS.to_be_bytes()).attr(HOOK_PRIORITY, &first);
            hook.text(HOOK_DEVICE, device)
        })
        .attr(CHAIN_POLICY, &policy.to_be_bytes())
        .text(CHAIN_TYPE, "filter")
}

const NETDEV: u8 = 5;
const NFNL_SUBSYS_NFTABLES: u16 = 10;
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
const NEW_CHAIN: u16 = 3;
const TABLE_NAME: u16 = 1;
const TABLE_FLAGS: u16 = 2;
const TABLE_OWNER: u32 = 2;
const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_POLICY: u16 = 5;
const CHAIN_TYPE: u16 = 7;
const HOOK_NUMBER: u16 = 1;
const HOOK_PRIORITY: u16 = 2;
const HOOK_DEVICE: u16 = 3;
const INGRESS: u32 = 0;
const DROP: u32 = 0;
const ACCEPT: u32 = 1;
const APPEND: u16 = 0x800;
const NEW_RULE: u16 = 6;
const RULE_TABLE: u16 = 1;
const RULE_CHAIN: u16 = 2;
const RULE_EXPRESSIONS: u16 = 4;
const LIST_ELEMENT: u16 = 1;
const EXPRESSION_NAME: u16 = 1;
const EXPRESSION_DATA: u16 = 2;
const IMMEDIATE_REGISTER: u16 = 1;
const IMMEDIATE_DATA: u16 = 2;
const DATA_VALUE: u16 = 1;
const META_KEY: u16 = 2;
const META_SOURCE: u16 = 3;
const META_MARK: u32 = 3;
const REGISTER: u32 = 8;

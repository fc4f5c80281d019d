//! The network interface below a port must not forward frames too: with af_packet or af_xdp the
//! same kernel receives them. While a [`Guard`] lives, every frame that the interface receives is
//! dropped before the kernel's stack. Packet sockets still receive it, because they come before the
//! drop:
//!
//! ```text
//!  frame ─► driver ─► packet sockets (the port) ─► ingress chain: drop ─✕ ARP, IP, bridge …
//! ```
//!
//! The chain is nftables' own (`table netdev`, policy drop), created over netlink with the owner
//! flag: when the process ends, however it ends, the kernel removes it.

use std::io;

use netlink::connection::Netlink;
use netlink::names::*;
use netlink::request::{CREATE, Request};
use netlink_sys::protocols::NETLINK_NETFILTER;

/// Drops the frames that a network interface receives, for as long as it lives.
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
            (Request::new(NFNL_MSG_BATCH_BEGIN, 0).body(&nfgen(0, NFNL_SUBSYS_NFTABLES)), false),
            (new_table(&table), true),
            (new_chain(&table, name, NF_DROP), true),
            (Request::new(NFNL_MSG_BATCH_END, 0).body(&nfgen(0, NFNL_SUBSYS_NFTABLES)), false),
        ];
        owner.batch(messages)?;
        Ok(Guard { _owner: owner })
    }
}

/// Marks packets that come in by an interface, so that the kernel routes its answers by the same
/// tables (`fwmark_reflect`); for as long as it lives.
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
            (Request::new(NFNL_MSG_BATCH_BEGIN, 0).body(&nfgen(0, NFNL_SUBSYS_NFTABLES)), false),
            (new_table(&table), true),
            (new_chain(&table, name, NF_ACCEPT), true),
            (new_marking(&table, mark), true),
            (Request::new(NFNL_MSG_BATCH_END, 0).body(&nfgen(0, NFNL_SUBSYS_NFTABLES)), false),
        ];
        owner.batch(messages)?;
        Ok(Marker { _owner: owner })
    }
}

/// `meta mark set MARK`.
fn new_marking(table: &str, mark: u32) -> Request {
    let expression = |list: Request, name: &str, data: &dyn Fn(Request) -> Request| {
        list.nest(NFTA_LIST_ELEM, |one| one.text(NFTA_EXPR_NAME, name).nest(NFTA_EXPR_DATA, data))
    };
    let register = NFT_REG32_00.to_be_bytes();
    let immediate = |data: Request| {
        let data = data.attr(NFTA_IMMEDIATE_DREG, &register);
        data.nest(NFTA_IMMEDIATE_DATA, |value| value.attr(NFTA_DATA_VALUE, &mark.to_ne_bytes()))
    };
    let meta = |data: Request| {
        data.attr(NFTA_META_KEY, &NFT_META_MARK.to_be_bytes()).attr(NFTA_META_SREG, &register)
    };
    Request::new(NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWRULE, CREATE | NLM_F_APPEND)
        .body(&nfgen(NFPROTO_NETDEV, 0))
        .text(NFTA_RULE_TABLE, table)
        .text(NFTA_RULE_CHAIN, "ingress")
        .nest(NFTA_RULE_EXPRESSIONS, |list| {
            let list = expression(list, "immediate", &immediate);
            expression(list, "meta", &meta)
        })
}

/// `struct nfgenmsg`.
fn nfgen(family: u8, resource: u16) -> [u8; 4] {
    let [high, low] = resource.to_be_bytes();
    [family, 0, high, low]
}

fn new_table(table: &str) -> Request {
    let message = Request::new(NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWTABLE, CREATE)
        .body(&nfgen(NFPROTO_NETDEV, 0));
    message.text(NFTA_TABLE_NAME, table).attr(NFTA_TABLE_FLAGS, &NFT_TABLE_F_OWNER.to_be_bytes())
}

fn new_chain(table: &str, device: &str, policy: u32) -> Request {
    let kind = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWCHAIN;
    Request::new(kind, CREATE)
        .body(&nfgen(NFPROTO_NETDEV, 0))
        .text(NFTA_CHAIN_TABLE, table)
        .text(NFTA_CHAIN_NAME, "ingress")
        .nest(NFTA_CHAIN_HOOK, |hook| {
            let first = i32::MIN.to_be_bytes();
            let hook = hook
                .attr(NFTA_HOOK_HOOKNUM, &NF_NETDEV_INGRESS.to_be_bytes())
                .attr(NFTA_HOOK_PRIORITY, &first);
            hook.text(NFTA_HOOK_DEV, device)
        })
        .attr(NFTA_CHAIN_POLICY, &policy.to_be_bytes())
        .text(NFTA_CHAIN_TYPE, "filter")
}

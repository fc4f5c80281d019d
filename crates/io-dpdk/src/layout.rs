//! [`Packet`] is an `rte_mbuf` in every field that both use: checked here, at
//! compile time, against the headers of the DPDK that is linked.

use io::Packet;

use crate::shim;

macro_rules! same {
    ($($field:ident = $constant:ident),* $(,)?) => {
        $(const _: () = assert!(
            Packet::LAYOUT.$field == shim::$constant as usize,
            concat!("Packet::", stringify!($field), " does not lie where rte_mbuf has it"),
        );)*
    };
}

same! {
    buf = RUTTER_MBUF_BUF,
    iova = RUTTER_MBUF_IOVA,
    data_off = RUTTER_MBUF_DATA_OFF,
    refcnt = RUTTER_MBUF_REFCNT,
    segs = RUTTER_MBUF_SEGS,
    port = RUTTER_MBUF_PORT,
    flags = RUTTER_MBUF_FLAGS,
    kind = RUTTER_MBUF_KIND,
    pkt_len = RUTTER_MBUF_PKT_LEN,
    data_len = RUTTER_MBUF_DATA_LEN,
    vlan = RUTTER_MBUF_VLAN,
    flow = RUTTER_MBUF_FLOW,
    flow_hi = RUTTER_MBUF_FLOW_HI,
    vlan_outer = RUTTER_MBUF_VLAN_OUTER,
    buf_len = RUTTER_MBUF_BUF_LEN,
    pool = RUTTER_MBUF_POOL,
    next = RUTTER_MBUF_NEXT,
    tx_offset = RUTTER_MBUF_TX_OFFSET,
    shared = RUTTER_MBUF_SHARED,
    priv_size = RUTTER_MBUF_PRIV_SIZE,
    timesync = RUTTER_MBUF_TIMESYNC,
    dynamic = RUTTER_MBUF_DYNAMIC,
}

const _: () = assert!(size_of::<Packet>() == shim::RUTTER_MBUF_SIZE as usize);
const _: () = assert!(Packet::HAS_HASH == shim::RUTTER_MBUF_HAS_HASH as u64);
const _: () = assert!(Packet::HEADROOM == shim::RUTTER_MBUF_HEADROOM as u16);

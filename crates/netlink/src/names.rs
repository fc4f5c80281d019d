//! The kernel's numbers, by the names of its headers (`linux/netlink.h`, `rtnetlink.h`,
//! `if_link.h`, `if_addr.h`, `neighbour.h`, `nexthop.h`, `fib_rules.h`, `inet_diag.h`, `unix_diag.h`,
//! `genetlink.h`, `ethtool_netlink.h`, `netfilter/nf_tables.h`).

macro_rules! names {
    ($($type:ty: $($name:ident = $value:expr,)+;)+) => {
        $($(
            #[doc = concat!("`", stringify!($name), "`")]
            pub const $name: $type = $value;
        )+)+
    };
}

// Addresses' families, and netlink itself.
names! {
    u8:
    AF_UNSPEC = 0,
    AF_INET = 2,
    AF_INET6 = 10,
    ;
    u16:
    NLMSG_ERROR = 2,
    NLMSG_DONE = 3,
    NLM_F_REQUEST = 1,
    NLM_F_MULTI = 0x2,
    NLM_F_ACK = 4,
    NLM_F_DUMP_INTR = 0x10,
    NLM_F_REPLACE = 0x100,
    NLM_F_EXCL = 0x200,
    NLM_F_DUMP = 0x300,
    NLM_F_CREATE = 0x400,
    NLM_F_APPEND = 0x800,
    NLA_F_NESTED = 0x8000,
    NLA_TYPE_MASK = 0x3fff,
    NLMSGERR_ATTR_MSG = 1,
    ;
}

// Messages of rtnetlink, and its groups.
names! {
    u16:
    RTM_NEWLINK = 16,
    RTM_DELLINK = 17,
    RTM_GETLINK = 18,
    RTM_NEWADDR = 20,
    RTM_DELADDR = 21,
    RTM_GETADDR = 22,
    RTM_NEWROUTE = 24,
    RTM_DELROUTE = 25,
    RTM_GETROUTE = 26,
    RTM_NEWNEIGH = 28,
    RTM_DELNEIGH = 29,
    RTM_GETNEIGH = 30,
    RTM_NEWRULE = 32,
    RTM_DELRULE = 33,
    RTM_GETRULE = 34,
    RTM_GETNEIGHTBL = 66,
    RTM_NEWNEXTHOP = 104,
    RTM_GETNEXTHOP = 106,
    ;
    u32:
    RTNLGRP_LINK = 1,
    RTNLGRP_NEIGH = 3,
    RTNLGRP_IPV4_IFADDR = 5,
    RTNLGRP_IPV4_ROUTE = 7,
    RTNLGRP_IPV4_RULE = 8,
    RTNLGRP_IPV6_IFADDR = 9,
    RTNLGRP_IPV6_ROUTE = 11,
    RTNLGRP_IPV6_RULE = 19,
    RTNLGRP_NEXTHOP = 32,
    ;
}

// Links and addresses.
names! {
    u16:
    IFLA_ADDRESS = 1,
    IFLA_IFNAME = 3,
    IFLA_MTU = 4,
    IFLA_LINK = 5,
    IFLA_MASTER = 10,
    IFLA_LINKINFO = 18,
    IFLA_IFALIAS = 20,
    IFLA_CARRIER = 33,
    IFLA_LINK_NETNSID = 37,
    IFLA_INFO_KIND = 1,
    IFLA_INFO_DATA = 2,
    IFLA_VRF_TABLE = 1,
    IFA_ADDRESS = 1,
    IFA_LOCAL = 2,
    IFA_FLAGS = 8,
    IFA_PROTO = 11,
    ;
    u32:
    IFF_UP = 1,
    IFF_RUNNING = 0x40,
    IFA_F_DADFAILED = 0x08,
    IFA_F_TENTATIVE = 0x40,
    IFA_F_NOPREFIXROUTE = 0x200,
    ;
}

// Routes, next-hop objects, neighbours, and tables of neighbours.
names! {
    u16:
    RTA_DST = 1,
    RTA_SRC = 2,
    RTA_OIF = 4,
    RTA_GATEWAY = 5,
    RTA_PRIORITY = 6,
    RTA_PREFSRC = 7,
    RTA_METRICS = 8,
    RTA_MULTIPATH = 9,
    RTA_TABLE = 15,
    RTA_VIA = 18,
    RTA_ENCAP_TYPE = 21,
    RTA_ENCAP = 22,
    RTA_NH_ID = 30,
    RTAX_LOCK = 1,
    RTAX_MTU = 2,
    NHA_ID = 1,
    NHA_GROUP = 2,
    NHA_BLACKHOLE = 4,
    NHA_OIF = 5,
    NHA_GATEWAY = 6,
    NHA_ENCAP_TYPE = 7,
    NHA_ENCAP = 8,
    NHA_FDB = 11,
    NDA_DST = 1,
    NDA_LLADDR = 2,
    NDA_FLAGS_EXT = 15,
    NUD_REACHABLE = 0x02,
    NUD_STALE = 0x04,
    NUD_DELAY = 0x08,
    NUD_PROBE = 0x10,
    NUD_FAILED = 0x20,
    NUD_NOARP = 0x40,
    NUD_PERMANENT = 0x80,
    NDTA_NAME = 1,
    NDTA_THRESH3 = 4,
    NDTA_CONFIG = 5,
    NDTA_STATS = 7,
    ;
    u8:
    RTN_UNICAST = 1,
    RTN_LOCAL = 2,
    RTN_BROADCAST = 3,
    RTN_ANYCAST = 4,
    RTN_MULTICAST = 5,
    RTN_BLACKHOLE = 6,
    RTN_UNREACHABLE = 7,
    RTN_PROHIBIT = 8,
    RTN_THROW = 9,
    RT_SCOPE_UNIVERSE = 0,
    RT_SCOPE_LINK = 253,
    RT_SCOPE_HOST = 254,
    RT_SCOPE_NOWHERE = 255,
    RTPROT_KERNEL = 2,
    RTNH_F_DEAD = 1,
    RTNH_F_LINKDOWN = 16,
    NTF_USE = 0x01,
    NTF_PROXY = 0x08,
    ;
    u32:
    RT_TABLE_DEFAULT = 253,
    RT_TABLE_MAIN = 254,
    RT_TABLE_LOCAL = 255,
    RTM_F_CLONED = 0x200,
    NTF_EXT_MANAGED = 1,
    ;
}

// Policy rules.
names! {
    u16:
    FRA_DST = 1,
    FRA_SRC = 2,
    FRA_IIFNAME = 3,
    FRA_GOTO = 4,
    FRA_PRIORITY = 6,
    FRA_FWMARK = 10,
    FRA_SUPPRESS_PREFIXLEN = 14,
    FRA_TABLE = 15,
    FRA_OIFNAME = 17,
    FRA_L3MDEV = 19,
    FRA_UID_RANGE = 20,
    FRA_PROTOCOL = 21,
    FRA_IP_PROTO = 22,
    FRA_SPORT_RANGE = 23,
    FRA_DPORT_RANGE = 24,
    ;
    u8:
    FR_ACT_TO_TBL = 1,
    FR_ACT_GOTO = 2,
    FR_ACT_NOP = 3,
    FR_ACT_PROHIBIT = 8,
    ;
    u32:
    FIB_RULE_INVERT = 2,
    ;
}

// Sockets.
names! {
    u16:
    SOCK_DIAG_BY_FAMILY = 20,
    INET_DIAG_REQ_BYTECODE = 1,
    UNIX_DIAG_UID = 7,
    ;
    u8:
    INET_DIAG_BC_JMP = 1,
    INET_DIAG_BC_S_EQ = 11,
    INET_DIAG_BC_D_EQ = 12,
    TCP_ESTABLISHED = 1,
    TCP_SYN_SENT = 2,
    TCP_CLOSE_WAIT = 8,
    ;
    u32:
    UDIAG_SHOW_UID = 0x40,
    ;
}

// Generic netlink, and `ethtool` by it.
names! {
    u16:
    GENL_ID_CTRL = 16,
    CTRL_ATTR_FAMILY_ID = 1,
    CTRL_ATTR_FAMILY_NAME = 2,
    ETHTOOL_A_FEATURES_HEADER = 1,
    ETHTOOL_A_FEATURES_WANTED = 3,
    ETHTOOL_A_FEATURES_ACTIVE = 4,
    ETHTOOL_A_HEADER_DEV_NAME = 2,
    ETHTOOL_A_BITSET_BITS = 3,
    ETHTOOL_A_BITSET_BITS_BIT = 1,
    ETHTOOL_A_BITSET_BIT_NAME = 2,
    ETHTOOL_A_BITSET_BIT_VALUE = 3,
    ;
    u8:
    CTRL_CMD_GETFAMILY = 3,
    ETHTOOL_MSG_FEATURES_GET = 11,
    ETHTOOL_MSG_FEATURES_SET = 12,
    ;
}

// nftables.
names! {
    u16:
    NFNL_SUBSYS_NFTABLES = 10,
    NFNL_MSG_BATCH_BEGIN = 16,
    NFNL_MSG_BATCH_END = 17,
    NFT_MSG_NEWTABLE = 0,
    NFT_MSG_NEWCHAIN = 3,
    NFT_MSG_NEWRULE = 6,
    NFTA_TABLE_NAME = 1,
    NFTA_TABLE_FLAGS = 2,
    NFTA_CHAIN_TABLE = 1,
    NFTA_CHAIN_NAME = 3,
    NFTA_CHAIN_HOOK = 4,
    NFTA_CHAIN_POLICY = 5,
    NFTA_CHAIN_TYPE = 7,
    NFTA_HOOK_HOOKNUM = 1,
    NFTA_HOOK_PRIORITY = 2,
    NFTA_HOOK_DEV = 3,
    NFTA_RULE_TABLE = 1,
    NFTA_RULE_CHAIN = 2,
    NFTA_RULE_EXPRESSIONS = 4,
    NFTA_LIST_ELEM = 1,
    NFTA_EXPR_NAME = 1,
    NFTA_EXPR_DATA = 2,
    NFTA_IMMEDIATE_DREG = 1,
    NFTA_IMMEDIATE_DATA = 2,
    NFTA_DATA_VALUE = 1,
    NFTA_META_KEY = 2,
    NFTA_META_SREG = 3,
    ;
    u8:
    NFPROTO_NETDEV = 5,
    ;
    u32:
    NFT_TABLE_F_OWNER = 2,
    NF_NETDEV_INGRESS = 0,
    NF_DROP = 0,
    NF_ACCEPT = 1,
    NFT_META_MARK = 3,
    NFT_REG32_00 = 8,
    ;
}

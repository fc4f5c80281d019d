-- The structures that a policy sees. `layout.rs` has the offsets of the first two.
-- Fields of headers are called as in DPDK; numbers in them are in network order.
local ffi = require "ffi"

ffi.cdef [[
enum { IPV4 = 0x0800, IPV6 = 0x86dd };
enum { ICMP = 1, TCP = 6, UDP = 17, ICMPV6 = 58 };
enum { REQUEST = 0, GRANTED = 1, DECLINED = 2, BPF = 3 };
enum { GK_REQUEST = 0, GK_GRANTED = 1, GK_DECLINED = 2, GK_BPF = 3 };
enum { GK_BPF_GRANTED = 0, GK_BPF_DECLINED = 1, GK_BPF_GRANTEDV2 = 2, GK_BPF_WEB = 3,
       GK_BPF_TCPSRV = 4 };
enum { ICMP_ECHO_REPLY_TYPE = 0, ICMP_DEST_UNREACHABLE_TYPE = 3, ICMP_SOURCE_QUENCH_TYPE = 4,
       ICMP_ECHO_REQUEST_TYPE = 8, ICMP_TIME_EXCEEDED_TYPE = 11,
       ICMP_ECHO_REPLY_CODE = 0, ICMP_ECHO_REQUEST_CODE = 0 };
enum { ICMPV6_DEST_UNREACHABLE_TYPE = 1, ICMPV6_PACKET_TOO_BIG_TYPE = 2,
       ICMPV6_TIME_EXCEEDED_TYPE = 3, ICMPV6_PARAMETER_PROBLEM_TYPE = 4,
       ICMPV6_ECHO_REQUEST_TYPE = 128, ICMPV6_ECHO_REPLY_TYPE = 129,
       ICMPV6_ECHO_REQUEST_CODE = 0, ICMPV6_ECHO_REPLY_CODE = 0 };

struct in_addr { uint32_t s_addr; };
struct in6_addr { uint8_t s6_addr[16]; };

struct gt_packet_headers {
  uint16_t outer_ethertype;
  uint16_t inner_ip_ver;
  uint8_t l4_proto;
  uint8_t priority;
  uint8_t outer_ecn;
  uint16_t upper_len;
  void *l2_hdr;
  void *outer_l3_hdr;
  void *inner_l3_hdr;
  void *l4_hdr;
  bool frag;
};

struct ip_flow {
  uint16_t proto;
  union {
    struct { uint32_t src, dst; } v4; /* in network order, as str_to_prefix gives them */
    struct { uint8_t src[16], dst[16]; } v6;
  } f;
};

struct gk_bpf_cookie { uint64_t mem[8]; };

struct ggu_granted {
  uint32_t tx_rate_kib_sec, cap_expire_sec, next_renewal_ms, renewal_step_ms;
} __attribute__((packed));
struct ggu_declined { uint32_t expire_sec; } __attribute__((packed));
struct ggu_bpf {
  uint32_t expire_sec;
  uint8_t program_index;
  uint8_t reserved;
  uint16_t cookie_len;
  struct gk_bpf_cookie cookie;
} __attribute__((packed));

struct ggu_policy {
  uint8_t state;
  struct ip_flow flow;
  union {
    struct ggu_granted granted;
    struct ggu_declined declined;
    struct ggu_bpf bpf;
  } params;
};

struct granted_params {
  uint32_t tx_rate_kib_sec, next_renewal_ms, renewal_step_ms;
} __attribute__((packed));
struct grantedv2_params {
  uint32_t tx1_rate_kib_sec, tx2_rate_kib_sec, next_renewal_ms, renewal_step_ms;
  bool direct_if_possible;
} __attribute__((packed));
enum { TCPSRV_MAX_NUM_PORTS = 12 };
struct tcpsrv_ports { uint16_t p[TCPSRV_MAX_NUM_PORTS]; };
struct tcpsrv_params {
  uint32_t tx1_rate_kib_sec, next_renewal_ms;
  union {
    struct { uint32_t renewal_step_ms:24, listening_port_count:4, remote_port_count:4; };
    uint32_t step_and_counts; /* the three at once: LuaJIT does not compile bit fields */
  };
  struct tcpsrv_ports ports;
} __attribute__((packed));
]]

local headers = [[
struct $ipv4_hdr {
  uint8_t version_ihl, type_of_service;
  uint16_t total_length, packet_id, fragment_offset;
  uint8_t time_to_live, next_proto_id;
  uint16_t hdr_checksum;
  uint32_t src_addr, dst_addr;
} __attribute__((packed));
struct $ipv6_hdr {
  uint32_t vtc_flow;
  uint16_t payload_len;
  uint8_t proto, hop_limits;
  uint8_t src_addr[16], dst_addr[16];
} __attribute__((packed));
struct $tcp_hdr {
  uint16_t src_port, dst_port;
  uint32_t sent_seq, recv_ack;
  uint8_t data_off, tcp_flags;
  uint16_t rx_win, cksum, tcp_urp;
} __attribute__((packed));
struct $udp_hdr { uint16_t src_port, dst_port, dgram_len, dgram_cksum; } __attribute__((packed));
struct $icmp_hdr {
  union { uint8_t icmp_type; uint8_t type; };
  union { uint8_t icmp_code; uint8_t code; };
  union { uint16_t icmp_cksum; uint16_t cksum; };
  uint16_t icmp_ident, icmp_seq_nb;
} __attribute__((packed));
struct $icmpv6_hdr {
  union { uint8_t icmpv6_type; uint8_t icmp6_type; uint8_t type; };
  union { uint8_t icmpv6_code; uint8_t icmp6_code; uint8_t code; };
  union { uint16_t icmpv6_cksum; uint16_t icmp6_cksum; uint16_t cksum; };
} __attribute__((packed));
]]
for _, prefix in ipairs { "", "rte_" } do
  ffi.cdef((headers:gsub("%$", prefix)))
end

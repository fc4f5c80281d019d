/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What a Gatekeeper's program sees. An object has two functions, in the sections `init` and
 * `pkt`:
 *
 *   init  a decision came: makes state of the parameters in the cookie. 0, or 1 to refuse.
 *   pkt   a packet of the flow came: FORWARD (prepared before), DECLINE or ERROR.
 *
 * Clang finds no <stdint.h> for this target, and refuses a function that is called like its
 * section. The sum of an address begins with the address: `buf_addr + data_off + l2_len`,
 * else DPDK's check takes it for a number.
 */
#ifndef GATEKEEPER_H
#define GATEKEEPER_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))

enum { INIT_OK = 0, INIT_ERROR = 1 };
enum { FORWARD = 0, DECLINE = 1, ERROR = 2 };

enum { IPV4 = 0x0800, IPV6 = 0x86dd };
enum { ICMP = 1, TCP = 6, UDP = 17, ICMPV6 = 58 };
/* DSCP of a packet that was granted, and of one that asks for renewal, too. */
enum { GRANTED = 1, RENEWAL = 2 };

struct init_ctx {
	u64 now;
};

struct pkt_ctx {
	u64 now;
	u64 expire_at;
	u16 l3_proto; /* IPV4 or IPV6 */
	u8 l4_proto;
	u8 fragmented;
	u32 unused;
};

/* The packet: what may be read of its descriptor. */
struct packet {
	u8 *buf_addr;
	u64 unused_8;
	u16 data_off;
	u8 unused_18[18];
	u32 pkt_len; /* of the frame as it was received */
	u8 unused_40[32];
	u16 l2_len : 7, l3_len : 9;
	u8 l4_len; /* what follows the IP header, at most 255 */
	u8 unused_75[5];
};

_Static_assert(sizeof(struct pkt_ctx) == 24, "the context has 24 bytes");
_Static_assert(__builtin_offsetof(struct packet, data_off) == 16, "data_off @16");
_Static_assert(__builtin_offsetof(struct packet, pkt_len) == 36, "pkt_len @36");
_Static_assert(__builtin_offsetof(struct packet, l4_len) == 74, "l4_len in tx_offload @72");

extern u64 cycles_per_sec;
extern u64 cycles_per_ms;

/* The flow's 64 bytes. */
extern void *init_ctx_to_cookie(struct init_ctx *ctx);
extern void *pkt_ctx_to_cookie(struct pkt_ctx *ctx);
extern struct packet *pkt_ctx_to_pkt(struct pkt_ctx *ctx);
/* 0, or negative; once a packet. */
extern int gk_bpf_prep_for_tx(struct pkt_ctx *ctx, int priority, int direct_if_possible);

/* Times do not wrap. */
INLINE u64 later(u64 now, u64 ticks)
{
	u64 sum = now + ticks;
	return sum < now ? ~0ULL : sum;
}

INLINE u64 kib(u64 rate_kib)
{
	return rate_kib * 1024;
}

/* Sends the packet with the DSCP that its time asks for. */
INLINE u64 forward(struct pkt_ctx *ctx, u64 *renewal_at, u64 step, int direct)
{
	int priority = GRANTED;
	if (ctx->now >= *renewal_at) {
		*renewal_at = later(ctx->now, step);
		priority = RENEWAL;
	}
	return gk_bpf_prep_for_tx(ctx, priority, direct) < 0 ? ERROR : FORWARD;
}

#endif

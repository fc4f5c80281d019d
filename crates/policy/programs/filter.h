/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What web and tcp-services have in common: which packets are looked at, and how.
 */
#ifndef FILTER_H
#define FILTER_H

#include "gatekeeper.h"

/* What a packet is to be charged with, or that it does not pass. */
enum verdict { PASS, PAY, REFUSE };

enum { ICMP_LEN = 8, TCP_LEN = 20 };
enum { SYN = 0x02, ACK = 0x10 };

/* The first byte behind the IP header. */
INLINE u8 *upper(struct packet *packet)
{
	return packet->buf_addr + packet->data_off + packet->l2_len + packet->l3_len;
}

/* Ports are read byte by byte: nothing says where they are aligned. */
INLINE u16 port(u8 *at)
{
	return (u16)at[0] << 8 | at[1];
}

/* Bit n for each type n below 64. */
#define TYPE(n) (1ULL << (n))

INLINE enum verdict icmp(struct pkt_ctx *ctx, struct packet *packet)
{
	if (ctx->fragmented || packet->l4_len < ICMP_LEN)
		return REFUSE;
	u8 type = *upper(packet);
	if (ctx->l4_proto == ICMP) { /* answers, errors, and echo */
		u64 good = TYPE(0) | TYPE(3) | TYPE(4) | TYPE(8) | TYPE(11);
		return type < 64 && (good >> (type & 63) & 1) ? PAY : REFUSE;
	}
	return (type >= 1 && type <= 4) || type == 128 || type == 129 ? PAY : REFUSE;
}

/* True for ICMP of the packet's own version. */
INLINE int is_icmp(struct pkt_ctx *ctx)
{
	return (ctx->l3_proto == IPV4 && ctx->l4_proto == ICMP) ||
	       (ctx->l3_proto == IPV6 && ctx->l4_proto == ICMPV6);
}

/* A port at which somebody listens. */
INLINE enum verdict listening(u8 flags)
{
	if (!(flags & SYN))
		return PASS;
	return flags & ACK ? REFUSE : PAY;
}

/* A connection begins. */
INLINE int opens(u8 flags)
{
	return (flags & (SYN | ACK)) == SYN;
}

#endif

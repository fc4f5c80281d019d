/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tcp-services: web with ports of the decision's own. Those at which the destination
 * listens come first; those of others that it uses come last.
 */
#include "bucket.h"
#include "filter.h"

enum { PORTS = 12 };

struct parameters {
	u32 rate_kib;
	u32 next_renewal_ms;
	u32 step_and_counts; /* renewal_step_ms : 24, listening : 4, remote : 4 */
	u16 ports[PORTS];
};

struct state {
	u64 window_end;
	s64 left1;
	s64 left2;
	u64 renewal_at;
	u32 rate_kib;
	u32 step_and_counts;
	u16 ports[PORTS];
};

_Static_assert(sizeof(struct parameters) == 36, "36 bytes of parameters");
_Static_assert(sizeof(struct state) == 64, "64 bytes of state");

INLINE u32 step_ms(u32 step_and_counts)
{
	return step_and_counts & 0xffffff;
}

INLINE u32 listening_ports(u32 step_and_counts)
{
	return step_and_counts >> 24 & 0xf;
}

INLINE u32 remote_ports(u32 step_and_counts)
{
	return step_and_counts >> 28;
}

INLINE u64 rate2(u64 rate_kib)
{
	return kib(rate_kib) / 20;
}

INLINE int among_first(struct state *state, u32 n, u16 port)
{
#pragma unroll
	for (u32 i = 0; i < PORTS; i++) {
		if (i < n && state->ports[i] == port)
			return 1;
	}
	return 0;
}

INLINE int among_last(struct state *state, u32 n, u16 port)
{
#pragma unroll
	for (u32 i = 0; i < PORTS; i++) {
		if (i < n && state->ports[PORTS - 1 - i] == port)
			return 1;
	}
	return 0;
}

INLINE enum verdict tcp(struct pkt_ctx *ctx, struct packet *packet, struct state *state)
{
	if (ctx->fragmented)
		return PAY;
	if (packet->l4_len < TCP_LEN)
		return REFUSE;
	u8 *header = upper(packet);
	u16 from = port(header), to = port(header + 2);
	u8 flags = header[13];

	if (among_first(state, listening_ports(state->step_and_counts), to))
		return listening(flags);
	if (opens(flags))
		return REFUSE;
	return among_last(state, remote_ports(state->step_and_counts), from) ? PASS : REFUSE;
}

SECTION("init") u64 tcp_services_init(struct init_ctx *ctx)
{
	void *cookie = init_ctx_to_cookie(ctx);
	struct parameters given = *(struct parameters *)cookie;
	struct state *state = cookie;
	u32 counts = given.step_and_counts;

	if (listening_ports(counts) + remote_ports(counts) > PORTS)
		return INIT_ERROR;
	state->window_end = later(ctx->now, cycles_per_sec);
	state->left1 = kib(given.rate_kib);
	state->left2 = rate2(given.rate_kib);
	state->renewal_at = later(ctx->now, cycles_per_ms * given.next_renewal_ms);
	state->rate_kib = given.rate_kib;
	state->step_and_counts = counts;
#pragma unroll
	for (int i = 0; i < PORTS; i++)
		state->ports[i] = given.ports[i];
	return INIT_OK;
}

SECTION("pkt") u64 tcp_services_pkt(struct pkt_ctx *ctx)
{
	struct state *state = pkt_ctx_to_cookie(ctx);
	struct packet *packet = pkt_ctx_to_pkt(ctx);
	u32 len = packet->pkt_len;
	u64 begun = epochs(ctx->now, &state->window_end);
	enum verdict verdict = REFUSE;

	if (begun > 0)
		state->left2 = rate2(state->rate_kib);
	state->left1 = pay(state->left1, begun, kib(state->rate_kib), len);
	if (state->left1 < 0)
		return DECLINE;
	if (ctx->l4_proto == TCP)
		verdict = tcp(ctx, packet, state);
	else if (is_icmp(ctx))
		verdict = icmp(ctx, packet);
	if (verdict == REFUSE)
		return DECLINE;
	if (verdict == PAY) {
		state->left2 -= len;
		if (state->left2 < 0)
			return DECLINE;
	}
	return forward(ctx, &state->renewal_at,
		       cycles_per_ms * step_ms(state->step_and_counts), 1);
}

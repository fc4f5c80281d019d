/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Parameters and state of grantedv2 and web.
 */
#ifndef GRANTEDV2_H
#define GRANTEDV2_H

#include "bucket.h"

struct parameters {
	u32 rate1_kib;
	u32 rate2_kib;
	u32 next_renewal_ms;
	u32 renewal_step_ms;
	u8 direct;
} __attribute__((packed, aligned(4)));

struct state {
	u64 window_end;
	s64 left1;
	s64 left2;
	u64 renewal_at;
	u64 step;
	u32 rate1_kib;
	u32 rate2_kib;
	u8 direct;
	u8 unused[7];
};

_Static_assert(__builtin_offsetof(struct parameters, direct) == 16, "17 bytes of parameters");
_Static_assert(sizeof(struct state) == 56, "56 bytes of state");

INLINE u64 begin(struct init_ctx *ctx)
{
	void *cookie = init_ctx_to_cookie(ctx);
	struct parameters given = *(struct parameters *)cookie;
	struct state *state = cookie;

	state->window_end = later(ctx->now, cycles_per_sec);
	state->left1 = kib(given.rate1_kib);
	state->left2 = kib(given.rate2_kib);
	state->renewal_at = later(ctx->now, cycles_per_ms * given.next_renewal_ms);
	state->step = cycles_per_ms * given.renewal_step_ms;
	state->rate1_kib = given.rate1_kib;
	state->rate2_kib = given.rate2_kib;
	*(u64 *)&state->direct = given.direct != 0;
	return INIT_OK;
}

/* False: the first bucket has nothing for this packet. */
INLINE int pay1(struct pkt_ctx *ctx, struct state *state, u32 len)
{
	u64 begun = epochs(ctx->now, &state->window_end);
	if (begun > 0)
		state->left2 = kib(state->rate2_kib);
	state->left1 = pay(state->left1, begun, kib(state->rate1_kib), len);
	return state->left1 >= 0;
}

/* False: the second has nothing for it. */
INLINE int pay2(struct state *state, u32 len)
{
	state->left2 -= len;
	return state->left2 >= 0;
}

#endif

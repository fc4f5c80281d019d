/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * granted: so many bytes a second, nothing carried over.
 */
#include "gatekeeper.h"

struct parameters {
	u32 rate_kib;
	u32 next_renewal_ms;
	u32 renewal_step_ms;
};

struct state {
	u64 window_end;
	u64 left;
	u64 renewal_at;
	u64 step;
	u32 rate_kib;
	u32 unused;
};

_Static_assert(sizeof(struct parameters) == 12, "12 bytes of parameters");
_Static_assert(sizeof(struct state) == 40, "40 bytes of state");

SECTION("init") u64 granted_init(struct init_ctx *ctx)
{
	void *cookie = init_ctx_to_cookie(ctx);
	struct parameters given = *(struct parameters *)cookie;
	struct state *state = cookie;

	state->window_end = later(ctx->now, cycles_per_sec);
	state->left = kib(given.rate_kib);
	state->renewal_at = later(ctx->now, cycles_per_ms * given.next_renewal_ms);
	state->step = cycles_per_ms * given.renewal_step_ms;
	state->rate_kib = given.rate_kib;
	state->unused = 0;
	return INIT_OK;
}

SECTION("pkt") u64 granted_pkt(struct pkt_ctx *ctx)
{
	struct state *state = pkt_ctx_to_cookie(ctx);
	u32 len = pkt_ctx_to_pkt(ctx)->pkt_len;

	if (ctx->now >= state->window_end) {
		state->window_end = later(ctx->now, cycles_per_sec);
		state->left = kib(state->rate_kib);
	}
	if (len > state->left)
		return DECLINE;
	state->left -= len;
	return forward(ctx, &state->renewal_at, state->step, 0);
}

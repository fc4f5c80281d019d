/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * grantedv2: so many bytes a second, with debt; fragments and all but TCP and UDP have a
 * second limit.
 */
#include "grantedv2.h"

SECTION("init") u64 grantedv2_init(struct init_ctx *ctx)
{
	return begin(ctx);
}

SECTION("pkt") u64 grantedv2_pkt(struct pkt_ctx *ctx)
{
	struct state *state = pkt_ctx_to_cookie(ctx);
	u32 len = pkt_ctx_to_pkt(ctx)->pkt_len;

	if (!pay1(ctx, state, len))
		return DECLINE;
	if (ctx->fragmented || (ctx->l4_proto != TCP && ctx->l4_proto != UDP)) {
		if (!pay2(state, len))
			return DECLINE;
	}
	return forward(ctx, &state->renewal_at, state->step, state->direct);
}

/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * web: grantedv2 for a web server that fetches pages itself, with SSH and FTP.
 */
#include "filter.h"
#include "grantedv2.h"

INLINE enum verdict tcp(struct pkt_ctx *ctx, struct packet *packet)
{
	if (ctx->fragmented)
		return PAY;
	if (packet->l4_len < TCP_LEN)
		return REFUSE;
	u8 *header = upper(packet);
	u16 from = port(header), to = port(header + 2);
	u8 flags = header[13];

	switch (to) {
	case 21: /* FTP, control */
	case 22: /* SSH */
	case 80:
	case 443:
	case 51000 ... 51999: /* FTP, passive data */
		return listening(flags);
	case 20: /* FTP, active data: the connection is the server's */
		return opens(flags) ? REFUSE : PASS;
	}
	if (opens(flags))
		return REFUSE;
	return from == 80 || from == 443 ? PASS : REFUSE;
}

SECTION("init") u64 web_init(struct init_ctx *ctx)
{
	return begin(ctx);
}

SECTION("pkt") u64 web_pkt(struct pkt_ctx *ctx)
{
	struct state *state = pkt_ctx_to_cookie(ctx);
	struct packet *packet = pkt_ctx_to_pkt(ctx);
	u32 len = packet->pkt_len;
	enum verdict verdict = REFUSE;

	if (!pay1(ctx, state, len))
		return DECLINE;
	if (ctx->l4_proto == TCP)
		verdict = tcp(ctx, packet);
	else if (is_icmp(ctx))
		verdict = icmp(ctx, packet);
	if (verdict == REFUSE || (verdict == PAY && !pay2(state, len)))
		return DECLINE;
	return forward(ctx, &state->renewal_at, state->step, state->direct);
}

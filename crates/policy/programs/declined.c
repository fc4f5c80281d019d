/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * declined: nothing passes.
 */
#include "gatekeeper.h"

SECTION("init") u64 declined_init(struct init_ctx *ctx)
{
	return INIT_OK;
}

SECTION("pkt") u64 declined_pkt(struct pkt_ctx *ctx)
{
	return DECLINE;
}

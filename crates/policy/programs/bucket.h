/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The buckets of grantedv2, web and tcp-services. The first may go into debt: each packet
 * is taken from it, also one that does not pass, so that whoever stays over the limit stays
 * blocked. The second begins anew each second. Seconds keep the rhythm of the first one.
 */
#ifndef BUCKET_H
#define BUCKET_H

#include "gatekeeper.h"

/* A debt of 2^20 seconds' rate is paid off after 2^20 seconds at the latest: 12 days. */
enum { MOST_EPOCHS = 1 << 20 };

/* Whole seconds that have begun since the last packet; moves the end of the running one. */
INLINE u64 epochs(u64 now, u64 *window_end)
{
	if (now < *window_end)
		return 0;
	u64 begun = (now - *window_end) / cycles_per_sec + 1;
	*window_end += begun * cycles_per_sec;
	return begun;
}

/* What the first bucket holds after so many seconds, and this packet. */
INLINE s64 pay(s64 left, u64 begun, u64 rate, u32 len)
{
	if (begun > MOST_EPOCHS)
		begun = MOST_EPOCHS;
	left += begun * rate;
	if (left > (s64)rate)
		left = rate;
	return left - len;
}

#endif

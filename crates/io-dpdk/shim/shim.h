/* What Rust needs of DPDK: plain functions and numbers, a burst at a time.
 *
 * Functions return 0 (or a count) for success and a negative errno otherwise.
 */
#ifndef RUTTER_SHIM_H
#define RUTTER_SHIM_H

#include <stddef.h>
#include <stdint.h>

#include <rte_mbuf.h>

/* rte_mbuf's layout, compared with io::Packet at compile time. */
enum {
	RUTTER_MBUF_SIZE = sizeof(struct rte_mbuf),
	RUTTER_MBUF_BUF = offsetof(struct rte_mbuf, buf_addr),
	RUTTER_MBUF_IOVA = offsetof(struct rte_mbuf, buf_iova),
	RUTTER_MBUF_DATA_OFF = offsetof(struct rte_mbuf, data_off),
	RUTTER_MBUF_REFCNT = offsetof(struct rte_mbuf, refcnt),
	RUTTER_MBUF_SEGS = offsetof(struct rte_mbuf, nb_segs),
	RUTTER_MBUF_PORT = offsetof(struct rte_mbuf, port),
	RUTTER_MBUF_FLAGS = offsetof(struct rte_mbuf, ol_flags),
	RUTTER_MBUF_KIND = offsetof(struct rte_mbuf, packet_type),
	RUTTER_MBUF_PKT_LEN = offsetof(struct rte_mbuf, pkt_len),
	RUTTER_MBUF_DATA_LEN = offsetof(struct rte_mbuf, data_len),
	RUTTER_MBUF_VLAN = offsetof(struct rte_mbuf, vlan_tci),
	RUTTER_MBUF_FLOW = offsetof(struct rte_mbuf, hash.rss),
	RUTTER_MBUF_FLOW_HI = offsetof(struct rte_mbuf, hash.fdir.hi),
	RUTTER_MBUF_VLAN_OUTER = offsetof(struct rte_mbuf, vlan_tci_outer),
	RUTTER_MBUF_BUF_LEN = offsetof(struct rte_mbuf, buf_len),
	RUTTER_MBUF_POOL = offsetof(struct rte_mbuf, pool),
	RUTTER_MBUF_NEXT = offsetof(struct rte_mbuf, next),
	RUTTER_MBUF_TX_OFFSET = offsetof(struct rte_mbuf, tx_offload),
	RUTTER_MBUF_SHARED = offsetof(struct rte_mbuf, shinfo),
	RUTTER_MBUF_PRIV_SIZE = offsetof(struct rte_mbuf, priv_size),
	RUTTER_MBUF_TIMESYNC = offsetof(struct rte_mbuf, timesync),
	RUTTER_MBUF_DYNAMIC = offsetof(struct rte_mbuf, dynfield1),
	RUTTER_MBUF_HAS_HASH = RTE_MBUF_F_RX_RSS_HASH,
	RUTTER_MBUF_HEADROOM = RTE_PKTMBUF_HEADROOM,
};

/* What a port is and can. */
struct rutter_info {
	uint32_t netdev;	/* the kernel's index of the interface below, or 0 */
	int32_t socket;		/* NUMA node, or -1 */
	uint16_t rx_queues;	/* at most */
	uint16_t tx_queues;
	uint16_t max_mtu;
	uint8_t mac[6];
};

struct rutter_stats {
	uint64_t rx_packets, rx_bytes, rx_missed, rx_errors, rx_no_buffer;
	uint64_t tx_packets, tx_bytes, tx_errors;
};

/* DPDK's log goes into a buffer that keeps the last lines. Copies them out,
 * ended by 0, and empties it. */
void rutter_log_open(void);
size_t rutter_log_take(char *out, size_t room);

int rutter_eal_init(int argc, char **argv);
const char *rutter_version(void);
const char *rutter_runtime_dir(void);

/* A worker's thread, known to DPDK and unknown again. */
int rutter_thread_register(void);
void rutter_thread_unregister(void);

struct rte_mempool;
/* Packets with `room` bytes, headroom included, and 64 that no device fills. */
struct rte_mempool *rutter_pool_create(const char *name, uint32_t packets, uint16_t room,
	int socket, int crosses_pages);
void rutter_pool_free(struct rte_mempool *pool);
uint32_t rutter_pool_available(const struct rte_mempool *pool);
struct rte_mbuf *rutter_allocate(struct rte_mempool *pool);

/* Plugs a device in; its port's number. */
int rutter_probe(const char *arguments, const char *name);
int rutter_remove(uint16_t port);
int rutter_info(uint16_t port, struct rutter_info *info);
/* How packets are spread over queues. */
enum {
	RUTTER_UNKNOWN,
	RUTTER_BY_FLOW,
	RUTTER_BY_PAIR,
};

/* By pair: the key of the Toeplitz hash, whose lowest `bits` are the bucket; the queue is
 * the bucket modulo queues. */
struct rutter_by_pair {
	uint8_t key[40];
	uint32_t bits;
};

/* How to start. */
struct rutter_setup {
	struct rte_mempool *pool;
	const struct rutter_by_pair *by_pair;	/* NULL: by flow */
	uint16_t port, queues, mtu;
};

/* `files`: for each queue a file that is readable while something waits there, or -1. It
 * is the driver's, and closed with the device. Returns how it spreads. */
int rutter_start(const struct rutter_setup *setup, int32_t *files);
int rutter_stop(uint16_t port);
int rutter_set_mtu(uint16_t port, uint16_t mtu);
int rutter_link(uint16_t port, uint32_t *speed_mbps);
int rutter_stats(uint16_t port, struct rutter_stats *stats);

uint16_t rutter_receive(uint16_t port, uint16_t queue, struct rte_mbuf **packets, uint16_t most);
uint16_t rutter_transmit(uint16_t port, uint16_t queue, struct rte_mbuf **packets, uint16_t n);
void rutter_free(struct rte_mbuf **packets, uint32_t n);

#endif

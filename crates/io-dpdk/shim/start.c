/* Starting a device: how it spreads packets over its queues, and the queues. */
#include "shim.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <rte_common.h>
#include <rte_ethdev.h>
#include <rte_mempool.h>

/* ---- spreading ---- */

static uint64_t
hash_of(const struct rte_eth_dev_info *info)
{
	return info->flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP);
}

/* The hash over both addresses and nothing else, of whatever comes behind them. A card
 * that has only hashes of a protocol each leaves TCP and UDP out of these. */
static int
hashes_pairs(const struct rte_eth_dev_info *info)
{
	uint64_t plain = RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_IPV6;

	return (info->flow_type_rss_offloads & plain) == plain;
}

/* Beyond the longest key, and the largest table, that a card is known to have. */
#define MOST_KEY 128
#define MOST_TABLE 4096

/* By port: a driver may read it at any time. */
static uint8_t keys[RTE_MAX_ETHPORTS][MOST_KEY];

/* Whether the device's key and table have room for these. */
static int
has_room(const struct rte_eth_dev_info *info, const struct rutter_by_pair *by)
{
	int key = info->hash_key_size == 0 ||
		(info->hash_key_size >= sizeof(by->key) && info->hash_key_size <= MOST_KEY);

	return key && by->bits < 16 && info->reta_size >= RTE_ETH_RETA_GROUP_SIZE &&
		info->reta_size <= MOST_TABLE && info->reta_size % (1u << by->bits) == 0;
}

/* The hash over both addresses, under the key that is wanted. */
static struct rte_eth_rss_conf
pairs_hash(const struct rutter_setup *setup, const struct rte_eth_dev_info *info)
{
	uint8_t *key = keys[setup->port], len = sizeof(setup->by_pair->key);

	/* What a longer key has beyond it is for fields that are not hashed. */
	memset(key, 0, MOST_KEY);
	memcpy(key, setup->by_pair->key, len);
	return (struct rte_eth_rss_conf){
		.rss_key = key,
		.rss_key_len = info->hash_key_size != 0 ? info->hash_key_size : len,
		.rss_hf = info->flow_type_rss_offloads & RTE_ETH_RSS_IP,
	};
}

static int
configure(const struct rutter_setup *setup, const struct rte_eth_dev_info *info, int spread,
	struct rte_eth_conf *conf)
{
	memset(conf, 0, sizeof(*conf));
	conf->rxmode.mtu = setup->mtu;
	/* RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE is left off: it wants all of a
	 * queue's packets from one pool, and a router's come from all ports'. */
	if (spread != RUTTER_UNKNOWN)
		conf->rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
	if (spread == RUTTER_BY_FLOW) {
		conf->rx_adv_conf.rss_conf.rss_hf = hash_of(info);
		conf->rxmode.offloads = info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_RSS_HASH;
	}
	if (spread == RUTTER_BY_PAIR)
		conf->rx_adv_conf.rss_conf = pairs_hash(setup, info);
	return rte_eth_dev_configure(setup->port, setup->queues, setup->queues, conf);
}

/* Configures it as near to what is wanted as its driver does: some name hashes that they
 * then refuse. */
static int
configure_spread(const struct rutter_setup *setup, const struct rte_eth_dev_info *info,
	struct rte_eth_conf *conf)
{
	int by_pair = setup->by_pair != NULL && setup->queues > 1 && hashes_pairs(info) &&
		has_room(info, setup->by_pair);
	int error;

	if (by_pair && configure(setup, info, RUTTER_BY_PAIR, conf) == 0)
		return RUTTER_BY_PAIR;
	if (hash_of(info) != 0 && configure(setup, info, RUTTER_BY_FLOW, conf) == 0)
		return setup->queues > 1 ? RUTTER_BY_FLOW : RUTTER_UNKNOWN;
	error = configure(setup, info, RUTTER_UNKNOWN, conf);
	return error < 0 ? error : RUTTER_UNKNOWN;
}

/* Writes the table of buckets, and asks the driver whether it and the key are in force. */
static int
deal_by_pair(const struct rutter_setup *setup, const struct rte_eth_dev_info *info)
{
	struct rte_eth_rss_reta_entry64 want[MOST_TABLE / RTE_ETH_RETA_GROUP_SIZE], have[RTE_DIM(want)];
	uint16_t size = info->reta_size;
	struct rte_eth_rss_conf ours = pairs_hash(setup, info);
	uint8_t key[MOST_KEY] = { 0 };
	struct rte_eth_rss_conf conf = { .rss_key = key, .rss_key_len = sizeof(key) };

	memset(want, 0, sizeof(want));
	for (uint16_t i = 0; i < size; i++) {
		uint32_t bucket = i & ((1u << setup->by_pair->bits) - 1);
		want[i / RTE_ETH_RETA_GROUP_SIZE].mask |= UINT64_C(1) << (i % RTE_ETH_RETA_GROUP_SIZE);
		want[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE] =
			bucket % setup->queues;
	}
	memcpy(have, want, sizeof(have));
	for (size_t group = 0; group < RTE_DIM(have); group++)
		memset(have[group].reta, 0xff, sizeof(have[group].reta));
	if (rte_eth_dev_rss_reta_update(setup->port, want, size) != 0 ||
		rte_eth_dev_rss_reta_query(setup->port, have, size) != 0)
		return 0;
	for (uint16_t i = 0; i < size; i++) {
		size_t group = i / RTE_ETH_RETA_GROUP_SIZE, place = i % RTE_ETH_RETA_GROUP_SIZE;
		if (have[group].reta[place] != want[group].reta[place])
			return 0;
	}
	/* Some drivers take a key by this call alone, others with the configuration. */
	rte_eth_dev_rss_hash_update(setup->port, &ours);
	if (info->hash_key_size != 0)
		conf.rss_key_len = info->hash_key_size;
	return rte_eth_dev_rss_hash_conf_get(setup->port, &conf) == 0 &&
		(conf.rss_hf & ~RTE_ETH_RSS_IP) == 0 &&
		memcmp(key, setup->by_pair->key, sizeof(setup->by_pair->key)) == 0;
}

/* ---- starting ---- */

/* Numbers of the XDP sockets of this process, up to `room`; how many. */
static int
xdp_sockets(int *files, int room)
{
	DIR *folder = opendir("/proc/self/fd");
	struct dirent *entry;
	int n = 0;

	while (folder != NULL && n < room && (entry = readdir(folder)) != NULL) {
		int file = atoi(entry->d_name), domain = 0;
		socklen_t len = sizeof(domain);
		if (getsockopt(file, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_XDP)
			files[n++] = file;
	}
	if (folder != NULL)
		closedir(folder);
	return n;
}

/* The one socket that is in `after` and not in `before`; -1 where there is no such one. */
static int
new_socket(const int *before, int had, const int *after, int has)
{
	int found = -1;

	for (int i = 0; i < has; i++) {
		int known = 0;
		for (int k = 0; k < had; k++)
			known |= before[k] == after[i];
		if (!known && found >= 0)
			return -1;
		if (!known)
			found = after[i];
	}
	return found;
}

#define MOST_SOCKETS 1024

/* net_af_xdp makes a queue's socket here, and reports it to nobody. */
static int
set_up_rx(uint16_t port, uint16_t queue, uint16_t slots, const struct rte_eth_dev_info *info,
	const struct rte_eth_rxconf *conf, struct rte_mempool *pool, int32_t *file)
{
	int before[MOST_SOCKETS], after[MOST_SOCKETS], had = 0, error;
	int xdp = info->driver_name != NULL && strcmp(info->driver_name, "net_af_xdp") == 0;

	*file = -1;
	if (xdp)
		had = xdp_sockets(before, MOST_SOCKETS);
	error = rte_eth_rx_queue_setup(port, queue, slots, rte_eth_dev_socket_id(port), conf, pool);
	if (error == 0 && xdp)
		*file = new_socket(before, had, after, xdp_sockets(after, MOST_SOCKETS));
	return error;
}

static int
set_up_queues(uint16_t port, uint16_t queues, const struct rte_eth_dev_info *info,
	const struct rte_eth_conf *conf, struct rte_mempool *pool, int32_t *files)
{
	struct rte_eth_rxconf rx = info->default_rxconf;
	struct rte_eth_txconf tx = info->default_txconf;
	uint16_t rx_slots = 1024, tx_slots = 1024;
	int socket = rte_eth_dev_socket_id(port);
	int error = rte_eth_dev_adjust_nb_rx_tx_desc(port, &rx_slots, &tx_slots);

	rx.offloads = conf->rxmode.offloads;
	tx.offloads = conf->txmode.offloads;
	for (uint16_t queue = 0; error == 0 && queue < queues; queue++) {
		error = set_up_rx(port, queue, rx_slots, info, &rx, pool, &files[queue]);
		if (error == 0)
			error = rte_eth_tx_queue_setup(port, queue, tx_slots, socket, &tx);
	}
	return error;
}

int
rutter_start(const struct rutter_setup *setup, int32_t *files)
{
	struct rte_eth_dev_info info;
	struct rte_eth_conf conf;
	int spread, error = rte_eth_dev_info_get(setup->port, &info);

	if (error != 0)
		return error;
	spread = configure_spread(setup, &info, &conf);
	if (spread < 0)
		return spread;
	error = set_up_queues(setup->port, setup->queues, &info, &conf, setup->pool, files);
	if (error == 0)
		error = rte_eth_dev_start(setup->port);
	if (error != 0)
		return error;
	if (spread == RUTTER_BY_PAIR && !deal_by_pair(setup, &info))
		spread = RUTTER_UNKNOWN;
	/* The driver may have no such switch because it hears everything anyway. */
	rte_eth_promiscuous_enable(setup->port);
	rte_eth_stats_reset(setup->port);
	return spread;
}

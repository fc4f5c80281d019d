#define _GNU_SOURCE
#define ALLOW_EXPERIMENTAL_API /* making a handle of an interrupt, in 22.11 */
#include "shim.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf_pool_ops.h>
#include <rte_mempool.h>
#include <rte_version.h>

/* ---- log ---- */

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_text[4096];
static size_t log_len;

static ssize_t
log_write(void *cookie, const char *text, size_t len)
{
	size_t keep = len < sizeof(log_text) ? len : sizeof(log_text);

	(void)cookie;
	pthread_mutex_lock(&log_lock);
	if (log_len + keep > sizeof(log_text)) {
		/* The newest lines matter: they say why something failed. */
		size_t rest = sizeof(log_text) - keep;
		if (rest > log_len)
			rest = log_len;
		memmove(log_text, log_text + log_len - rest, rest);
		log_len = rest;
	}
	memcpy(log_text + log_len, text + len - keep, keep);
	log_len += keep;
	pthread_mutex_unlock(&log_lock);
	return len;
}

void
rutter_log_open(void)
{
	FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = log_write });

	if (stream != NULL) {
		setvbuf(stream, NULL, _IOLBF, 512);
		rte_openlog_stream(stream);
	}
}

size_t
rutter_log_take(char *out, size_t room)
{
	size_t n;

	pthread_mutex_lock(&log_lock);
	n = log_len < room - 1 ? log_len : room - 1;
	memcpy(out, log_text + log_len - n, n);
	out[n] = 0;
	log_len = 0;
	pthread_mutex_unlock(&log_lock);
	return n;
}

/* What libbpf and libxdp, which net_af_xdp loads, would print on stderr. */
static int
bpf_log(int level, const char *format, va_list arguments)
{
	char line[512];
	int len = vsnprintf(line, sizeof(line), format, arguments);

	if (level == 0 && len > 0) /* a warning */
		log_write(NULL, line, (size_t)len < sizeof(line) ? (size_t)len : sizeof(line) - 1);
	return len;
}

static void
redirect(const char *library, const char *setter)
{
	typedef int (*print_fn)(int, const char *, va_list);
	void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
	print_fn (*set)(print_fn) = NULL;

	if (handle != NULL)
		*(void **)&set = dlsym(handle, setter);
	if (set != NULL)
		set(bpf_log);
}

/* ---- environment ---- */

int
rutter_eal_init(int argc, char **argv)
{
	if (rte_eal_init(argc, argv) < 0)
		return -rte_errno;
	redirect("libbpf.so.1", "libbpf_set_print");
	redirect("libxdp.so.1", "libxdp_set_print");
	return 0;
}

const char *
rutter_version(void)
{
	return rte_version();
}

const char *
rutter_runtime_dir(void)
{
	return rte_eal_get_runtime_dir();
}

int
rutter_thread_register(void)
{
	if (rte_lcore_id() != LCORE_ID_ANY)
		return 0;
	return rte_thread_register() < 0 ? -rte_errno : 1;
}

void
rutter_thread_unregister(void)
{
	rte_thread_unregister();
}

/* ---- pools ---- */

/* Bytes behind every buffer that no device fills: whatever a packet's length
 * is, 64 bytes from its data's start, or its end, can be read (I1). */
#define SLACK 64
#define CACHE 512

static void
packet_init(struct rte_mempool *pool, void *opaque, void *object, unsigned int index)
{
	struct rte_mbuf *packet = object;

	rte_pktmbuf_init(pool, opaque, object, index);
	packet->buf_len -= SLACK;
}

struct rte_mempool *
rutter_pool_create(const char *name, uint32_t packets, uint16_t room, int socket,
	int crosses_pages)
{
	struct rte_pktmbuf_pool_private private = { .mbuf_data_room_size = room };
	unsigned int size = sizeof(struct rte_mbuf) + room + SLACK;
	unsigned int flags = crosses_pages ? RTE_MEMPOOL_F_NO_IOVA_CONTIG : 0;
	struct rte_mempool *pool = rte_mempool_create_empty(name, packets, size, CACHE,
		sizeof(private), socket, flags);

	if (pool == NULL)
		return NULL;
	if (rte_mempool_set_ops_byname(pool, rte_mbuf_best_mempool_ops(), NULL) != 0)
		goto fail;
	rte_pktmbuf_pool_init(pool, &private);
	if (rte_mempool_populate_default(pool) < 0)
		goto fail;
	rte_mempool_obj_iter(pool, packet_init, NULL);
	return pool;
fail:
	rte_mempool_free(pool);
	return NULL;
}

void
rutter_pool_free(struct rte_mempool *pool)
{
	rte_mempool_free(pool);
}

uint32_t
rutter_pool_available(const struct rte_mempool *pool)
{
	return rte_mempool_avail_count(pool);
}

struct rte_mbuf *
rutter_allocate(struct rte_mempool *pool)
{
	return rte_pktmbuf_alloc(pool);
}

/* ---- devices ---- */

int
rutter_probe(const char *arguments, const char *name)
{
	uint16_t port;
	int error;

	if (rte_eth_dev_get_port_by_name(name, &port) == 0)
		return -EEXIST;
	error = rte_dev_probe(arguments);
	if (error != 0)
		return error;
	error = rte_eth_dev_get_port_by_name(name, &port);
	return error != 0 ? error : port;
}

/* A call that DPDK's interrupt thread makes, woken by a file of its own. */
struct call {
	int (*function)(uint16_t port);
	uint16_t port;
	int event, result, made;
	sem_t done;
};

static void
take_turn(void *opaque)
{
	struct call *call = opaque;
	eventfd_t count;

	if (eventfd_read(call->event, &count) != 0)
		return;
	if (call->made) {
		sem_post(&call->done);
		return;
	}
	call->result = call->function(call->port);
	call->made = 1;
	eventfd_write(call->event, 1);
}

/* The thread takes what has happened to its files in rounds, and finds who waits
 * for a file by its number. A file that the call closes may have a turn in the same
 * round still, and whoever opens another by then gets the turn, with the number:
 * memif would read what is not there, for ever. So the call is over a round later. */
static int
call_in_turn(struct call *call, struct rte_intr_handle *handle)
{
	int error = rte_intr_fd_set(handle, call->event);

	if (error == 0)
		error = rte_intr_type_set(handle, RTE_INTR_HANDLE_EXT);
	if (error == 0)
		error = rte_intr_callback_register(handle, take_turn, call);
	if (error != 0)
		return error;
	eventfd_write(call->event, 1);
	while (sem_wait(&call->done) != 0) /* a signal: wait on */
		;
	while (rte_intr_callback_unregister(handle, take_turn, call) == -EAGAIN)
		sched_yield(); /* it is on its way out of take_turn */
	return call->result;
}

/* net_memif disconnects on the thread that stops the device and, once the
 * other end has gone, on DPDK's interrupt thread, without a lock: both free
 * the same regions. Where all of it happens on the one thread, it happens in
 * turn. */
static int
in_turn(int (*function)(uint16_t), uint16_t port)
{
	struct call call = { .function = function, .port = port };
	struct rte_intr_handle *handle;
	struct rte_eth_dev_info info;
	int error = rte_eth_dev_info_get(port, &info);

	if (error != 0)
		return error;
	if (info.driver_name == NULL || strcmp(info.driver_name, "net_memif") != 0)
		return function(port);
	handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	call.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	sem_init(&call.done, 0, 0);
	error = handle == NULL || call.event < 0 ? -ENOMEM : call_in_turn(&call, handle);
	sem_destroy(&call.done);
	if (call.event >= 0)
		close(call.event);
	rte_intr_instance_free(handle);
	return error;
}

static int
remove_port(uint16_t port)
{
	struct rte_eth_dev_info info;
	int error = rte_eth_dev_info_get(port, &info);

	if (error != 0)
		return error;
	error = rte_eth_dev_close(port);
	/* Closing frees what belongs to the port; the bus keeps the device. */
	return info.device != NULL ? rte_dev_remove(info.device) : error;
}

int
rutter_remove(uint16_t port)
{
	return in_turn(remove_port, port);
}

int
rutter_info(uint16_t port, struct rutter_info *out)
{
	struct rte_eth_dev_info info;
	struct rte_ether_addr mac;
	int error = rte_eth_dev_info_get(port, &info);

	if (error == 0)
		error = rte_eth_macaddr_get(port, &mac);
	if (error != 0)
		return error;
	out->netdev = info.if_index;
	out->socket = rte_eth_dev_socket_id(port);
	out->rx_queues = info.max_rx_queues;
	out->tx_queues = info.max_tx_queues;
	out->max_mtu = info.max_mtu;
	memcpy(out->mac, mac.addr_bytes, sizeof(out->mac));
	return 0;
}

int
rutter_stop(uint16_t port)
{
	return in_turn(rte_eth_dev_stop, port);
}

int
rutter_set_mtu(uint16_t port, uint16_t mtu)
{
	return rte_eth_dev_set_mtu(port, mtu);
}

int
rutter_link(uint16_t port, uint32_t *speed_mbps)
{
	struct rte_eth_link link;
	int error = rte_eth_link_get_nowait(port, &link);

	if (error != 0)
		return error;
	*speed_mbps = link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN ? 0 : link.link_speed;
	return link.link_status == RTE_ETH_LINK_UP;
}

int
rutter_stats(uint16_t port, struct rutter_stats *out)
{
	struct rte_eth_stats stats;
	int error = rte_eth_stats_get(port, &stats);

	if (error != 0)
		return error;
	out->rx_packets = stats.ipackets;
	out->rx_bytes = stats.ibytes;
	out->rx_missed = stats.imissed;
	out->rx_errors = stats.ierrors;
	out->rx_no_buffer = stats.rx_nombuf;
	out->tx_packets = stats.opackets;
	out->tx_bytes = stats.obytes;
	out->tx_errors = stats.oerrors;
	return 0;
}

/* ---- bursts ---- */

uint16_t
rutter_receive(uint16_t port, uint16_t queue, struct rte_mbuf **packets, uint16_t most)
{
	return rte_eth_rx_burst(port, queue, packets, most);
}

uint16_t
rutter_transmit(uint16_t port, uint16_t queue, struct rte_mbuf **packets, uint16_t n)
{
	return rte_eth_tx_burst(port, queue, packets, n);
}

void
rutter_free(struct rte_mbuf **packets, uint32_t n)
{
	rte_pktmbuf_free_bulk(packets, n);
}

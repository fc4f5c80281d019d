/* DPDK's lookup tables for the lab: creation, and what is inline in the headers. */
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

#include <rte_errno.h>
#include <rte_fib.h>
#include <rte_fib6.h>
#include <rte_hash.h>
#include <rte_hash_crc.h>
#include <rte_lpm.h>
#include <rte_lpm6.h>
#include <rte_malloc.h>
#include <rte_vect.h>

/* Gives DPDK, which has started, memory on 2 MB pages where the kernel grants them:
 * the same pages that our own tables lie on. Returns the number of the "socket" of
 * that memory, or a negative errno. */
int lab_dpdk_memory(size_t bytes)
{
	const size_t page = 2 << 20;
	void *memory;

	rte_vect_set_max_simd_bitwidth(RTE_VECT_SIMD_512);
	memory = mmap(NULL, bytes + page, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return -ENOMEM;
	memory = (void *)(((uintptr_t)memory + page - 1) & ~(page - 1));
	madvise(memory, bytes, MADV_HUGEPAGE);
	if (rte_malloc_heap_create("lab") < 0 ||
	    rte_malloc_heap_memory_add("lab", memory, bytes, NULL, 0, page) < 0)
		return -rte_errno;
	return rte_malloc_heap_get_socket("lab");
}

struct rte_fib *lab_fib_new(const char *name, int socket, uint32_t routes, int width_log2,
			    uint32_t groups, int kind)
{
	struct rte_fib_conf conf = { .type = RTE_FIB_DIR24_8, .max_routes = routes };
	struct rte_fib *fib;

	conf.dir24_8.nh_sz = width_log2;
	conf.dir24_8.num_tbl8 = groups;
	fib = rte_fib_create(name, socket, &conf);
	if (fib != NULL && rte_fib_select_lookup(fib, kind) < 0) {
		rte_fib_free(fib);
		return NULL;
	}
	return fib;
}

struct rte_fib6 *lab_fib6_new(const char *name, int socket, uint32_t routes, uint32_t groups,
			      int kind)
{
	struct rte_fib6_conf conf = { .type = RTE_FIB6_TRIE, .max_routes = routes };
	struct rte_fib6 *fib;

	conf.trie.nh_sz = RTE_FIB6_TRIE_4B;
	conf.trie.num_tbl8 = groups;
	fib = rte_fib6_create(name, socket, &conf);
	if (fib != NULL && rte_fib6_select_lookup(fib, kind) < 0) {
		rte_fib6_free(fib);
		return NULL;
	}
	return fib;
}

struct rte_lpm *lab_lpm_new(const char *name, int socket, uint32_t routes, uint32_t groups)
{
	struct rte_lpm_config config = { .max_rules = routes, .number_tbl8s = groups };

	return rte_lpm_create(name, socket, &config);
}

/* A hop that is valid has bit 24 set (RTE_LPM_LOOKUP_SUCCESS). */
void lab_lpm_bulk(struct rte_lpm *lpm, const uint32_t *ips, uint32_t *hops, unsigned int n)
{
	rte_lpm_lookup_bulk(lpm, ips, hops, n);
}

struct rte_lpm6 *lab_lpm6_new(const char *name, int socket, uint32_t routes, uint32_t groups)
{
	struct rte_lpm6_config config = { .max_rules = routes, .number_tbl8s = groups };

	return rte_lpm6_create(name, socket, &config);
}

struct rte_hash *lab_hash_new(const char *name, int socket, uint32_t entries)
{
	struct rte_hash_parameters parameters = {
		.name = name,
		.entries = entries,
		.key_len = sizeof(uint64_t),
		.hash_func = rte_hash_crc,
		.socket_id = socket,
		.extra_flag = RTE_HASH_EXTRA_FLAGS_RW_CONCURRENCY_LF,
	};

	return rte_hash_create(&parameters);
}

int lab_hash_add(struct rte_hash *hash, uint64_t key, uint16_t value)
{
	return rte_hash_add_key_data(hash, &key, (void *)(uintptr_t)value);
}

/* Nobody reads while the lab deletes: the place may be used again at once. */
void lab_hash_delete(struct rte_hash *hash, uint64_t key)
{
	int32_t place = rte_hash_del_key(hash, &key);

	if (place >= 0)
		rte_hash_free_key_with_position(hash, place);
}

/* At most 64 keys. A key that is not there has the value 0xffff. */
void lab_hash_bulk(struct rte_hash *hash, const uint64_t *keys, uint16_t *values, unsigned int n)
{
	const void *pointers[RTE_HASH_LOOKUP_BULK_MAX];
	void *data[RTE_HASH_LOOKUP_BULK_MAX];
	uint64_t hits = 0;

	for (unsigned int i = 0; i < n; i++)
		pointers[i] = &keys[i];
	rte_hash_lookup_bulk_data(hash, pointers, n, &hits, data);
	for (unsigned int i = 0; i < n; i++)
		values[i] = hits >> i & 1 ? (uint16_t)(uintptr_t)data[i] : 0xffff;
}

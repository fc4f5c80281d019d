/* DPDK's check and compiler for programs, behind two functions. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <rte_bpf.h>
#include <rte_mbuf.h>

enum { CONTEXT_INIT = 8, CONTEXT_PACKET = 24, COOKIE = 64 };

typedef uint64_t (*helper)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

/* What src/bpf/jit.rs hands over. */
struct rutter_bpf_parts {
	const uint64_t *instructions;
	uint32_t count;
	uint32_t packet; /* 0: `init` */
	uint32_t buffer; /* bytes of the packet's buffer */
	helper cookie, descriptor, prepare;
	uint64_t *variables[2];
};

struct rutter_bpf_made {
	struct rte_bpf *bpf;
	uint64_t (*run)(void *);
};

static struct rte_bpf_arg pointer(size_t size)
{
	return (struct rte_bpf_arg){ .type = RTE_BPF_ARG_PTR, .size = size };
}

static const struct rte_bpf_arg number = { .type = RTE_BPF_ARG_RAW, .size = sizeof(uint64_t) };

/* -1: DPDK refuses the program, or compiles nothing for this processor. */
int rutter_bpf_load(const struct rutter_bpf_parts *parts, struct rutter_bpf_made *made)
{
	const struct rte_bpf_arg context = pointer(parts->packet ? CONTEXT_PACKET : CONTEXT_INIT);
	struct rte_bpf_xsym symbols[5];
	uint32_t n = 0;

	/* The helpers in the order of src/bpf/names.rs: a call has the place. */
	memset(symbols, 0, sizeof(symbols));
	symbols[n].name = "cookie";
	symbols[n].type = RTE_BPF_XTYPE_FUNC;
	symbols[n].func.val = parts->cookie;
	symbols[n].func.nb_args = 1;
	symbols[n].func.args[0] = context;
	symbols[n++].func.ret = pointer(COOKIE);
	if (parts->packet) {
		symbols[n].name = "descriptor";
		symbols[n].type = RTE_BPF_XTYPE_FUNC;
		symbols[n].func.val = parts->descriptor;
		symbols[n].func.nb_args = 1;
		symbols[n].func.args[0] = context;
		symbols[n++].func.ret = (struct rte_bpf_arg){
			.type = RTE_BPF_ARG_PTR_MBUF,
			.size = sizeof(struct rte_mbuf),
			.buf_size = parts->buffer,
		};
		symbols[n].name = "prepare";
		symbols[n].type = RTE_BPF_XTYPE_FUNC;
		symbols[n].func.val = parts->prepare;
		symbols[n].func.nb_args = 3;
		symbols[n].func.args[0] = context;
		symbols[n].func.args[1] = number;
		symbols[n].func.args[2] = number;
		symbols[n++].func.ret = number;
	}
	for (int i = 0; i < 2; i++) {
		symbols[n].name = i ? "cycles_per_ms" : "cycles_per_sec";
		symbols[n].type = RTE_BPF_XTYPE_VAR;
		symbols[n].var.val = parts->variables[i];
		symbols[n++].var.desc = pointer(sizeof(uint64_t));
	}
	const struct rte_bpf_prm given = {
		.ins = (const struct ebpf_insn *)parts->instructions,
		.nb_ins = parts->count,
		.xsym = symbols,
		.nb_xsym = n,
		.prog_arg = context,
	};
	struct rte_bpf *bpf = rte_bpf_load(&given);
	struct rte_bpf_jit jit;

	if (bpf == NULL)
		return -1;
	if (rte_bpf_get_jit(bpf, &jit) != 0 || jit.func == NULL) {
		rte_bpf_destroy(bpf);
		return -1;
	}
	made->bpf = bpf;
	made->run = jit.func;
	return 0;
}

/* By DPDK's interpreter. */
uint64_t rutter_bpf_interpret(const struct rutter_bpf_made *made, void *context)
{
	return rte_bpf_exec(made->bpf, context);
}

void rutter_bpf_destroy(struct rutter_bpf_made *made)
{
	rte_bpf_destroy(made->bpf);
}

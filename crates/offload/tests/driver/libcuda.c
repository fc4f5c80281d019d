/* A CUDA driver for tests: what NVIDIA's does, by this processor, and as late as it may.
 *
 * A stream is a list of what is to be done; an operation is done each time somebody asks. So what
 * does not wait for a copy finds the memory as it was before.
 * Memory of the device has places of its own, which are none of this process's memory; a copy or a
 * kernel that leaves its allocation ends the process, as does what is freed while it is in use.
 *
 *   CUDA_FAULT=NAME@N    the call NAME fails after N that went well, and from then on everything
 *   CUDA_CODE=N          what failing calls return; default 719, which has words
 *   CUDA_HANG=stream@N   after N operations the device does nothing more, for ever; calls that would
 *                        wait for it end the process
 *   CUDA_HANG=NAME@N     the call NAME does not return, after N that did
 *   CUDA_FROM=FILE       only calls and operations since FILE is there count
 *   CUDA_END=waits       the end of the process waits for a device or a call that hangs: it ends the
 *                        process with a signal instead
 *   CUDA_MEMORY=BYTES    of the device; default 64 MiB
 *   CUDA_VERSION=N       default 12000
 *   CUDA_DEVICES=N       default 1
 */
#define _GNU_SOURCE
#include "../../kernels/lookup.cu"
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NO_DEVICE = 100, INVALID_CONTEXT = 201,
       NOT_FOUND = 500, NOT_READY = 600, LAUNCH_FAILED = 719 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int lost, hung, current_set;
static char context, module;
static __thread void *current;

static long long setting(const char *name, long long standard) {
    const char *text = getenv(name);
    return text ? atoll(text) : standard;
}

static void fail(const char *why) {
    fprintf(stderr, "the driver of the tests: %s\n", why);
    abort();
}

/* True from the call on that a setting names. */
static int is_due(const char *setting, const char *name, long long *well) {
    const char *text = getenv(setting);
    const char *from = getenv("CUDA_FROM");
    size_t length = strlen(name);
    if (from && access(from, F_OK))
        return 0;
    return text && !strncmp(text, name, length) && text[length] == '@' &&
           (*well)++ >= atoll(text + length + 1);
}

static int fails(const char *name) {
    static long long well, returned;
    if (is_due("CUDA_HANG", name, &returned))
        for (hung = 1;;)
            pause();
    lost = lost || is_due("CUDA_FAULT", name, &well);
    return lost;
}

/* What only returns once the device has done all its work. */
static void waits(const char *name) {
    if (hung) {
        fprintf(stderr, "%s: ", name);
        fail("this call waits for a device that hangs");
    }
}

__attribute__((destructor)) static void end(void) {
    if (getenv("CUDA_END"))
        waits("the end of the process");
}

static int failure(void) {
    return (int)setting("CUDA_CODE", LAUNCH_FAILED);
}

#define TRY(name)                                                                                 \
    do {                                                                                          \
        if (fails(name))                                                                          \
            return failure();                                                                     \
    } while (0)

/* -- memory -------------------------------------------------------------------------------- */

typedef struct Block {
    uint64_t at; /* its place on the device, or in this process */
    size_t bytes;
    char *memory; /* of the device */
    struct Block *next;
} Block;

static Block *device_blocks, *pinned_blocks;
static uint64_t next_place = 1ull << 40, used;

static Block *block_of(Block *list, uint64_t at, size_t bytes) {
    for (; list; list = list->next)
        if (at >= list->at && at - list->at <= list->bytes && bytes <= list->bytes - (at - list->at))
            return list;
    return NULL;
}

static char *on_device(uint64_t at, size_t bytes) {
    Block *block = block_of(device_blocks, at, bytes);
    if (!block)
        fail("a place that is no memory of the device");
    return block->memory + (at - block->at);
}

static void take_out(Block **list, uint64_t at, Block *out) {
    for (; *list; list = &(*list)->next) {
        if ((*list)->at == at) {
            Block *block = *list;
            *out = *block;
            *list = block->next;
            free(block);
            return;
        }
    }
    fail("freed twice, or never allocated");
}

static void add(Block **list, Block block) {
    Block *new = malloc(sizeof *new);
    *new = block;
    new->next = *list;
    *list = new;
}

/* -- streams ------------------------------------------------------------------------------- */

typedef void (*Kernel)(const u32 *image, const void *dsts, u32 *hops, u64 count);
enum { IN, OUT, RUN, MARK };
typedef struct Event {
    int pending;
    struct Stream *stream;
} Event;
typedef struct Op {
    int kind;
    void *host;
    uint64_t at;
    size_t bytes;
    Kernel kernel;
    size_t width;
    uint64_t places[3], count;
    Event *event;
    struct Op *next;
} Op;
typedef struct Stream {
    Op *first, **last;
    struct Stream *next;
} Stream;
static Stream *streams;

static void step(Stream *stream) {
    static long long done;
    Op *op = stream->first;
    hung = hung || (op && is_due("CUDA_HANG", "stream", &done));
    if (!op || hung)
        return;
    if (!(stream->first = op->next))
        stream->last = &stream->first;
    if (!lost && op->kind == IN)
        memcpy(on_device(op->at, op->bytes), op->host, op->bytes);
    if (!lost && op->kind == OUT)
        memcpy(op->host, on_device(op->at, op->bytes), op->bytes);
    if (!lost && op->kind == RUN)
        op->kernel((u32 *)on_device(op->places[0], 4), on_device(op->places[1], op->count * op->width),
                   (u32 *)on_device(op->places[2], op->count * 4), op->count);
    if (op->kind == MARK)
        op->event->pending--;
    free(op);
}

static int put(Stream *stream, Op op) {
    Op *new = malloc(sizeof *new);
    *new = op;
    new->next = NULL;
    *stream->last = new;
    stream->last = &new->next;
    return SUCCESS;
}

/* Nothing under way touches it. */
static void unused(uint64_t at, size_t bytes) {
    for (Stream *stream = streams; stream; stream = stream->next)
        for (Op *op = stream->first; op && !lost; op = op->next) {
            uint64_t host = (uint64_t)op->host;
            int meets = op->kind <= OUT && ((op->at >= at && op->at < at + bytes) ||
                                            (host >= at && host < at + bytes));
            for (int i = 0; op->kind == RUN && i < 3; i++)
                meets |= op->places[i] >= at && op->places[i] < at + bytes;
            if (meets)
                fail("memory is freed that is in use");
        }
}

#define LOCKED(body)                                                                              \
    do {                                                                                          \
        pthread_mutex_lock(&lock);                                                                \
        int result_ = (body);                                                                     \
        pthread_mutex_unlock(&lock);                                                              \
        return result_;                                                                           \
    } while (0)
#define BOUND                                                                                     \
    do {                                                                                          \
        if (current != &context)                                                                  \
            return INVALID_CONTEXT;                                                               \
    } while (0)

/* -- what is called ------------------------------------------------------------------------ */

int cuDriverGetVersion(int *version) {
    TRY("cuDriverGetVersion");
    *version = (int)setting("CUDA_VERSION", 12000);
    return SUCCESS;
}
int cuInit(unsigned flags) {
    TRY("cuInit");
    (void)flags;
    return setting("CUDA_DEVICES", 1) ? SUCCESS : NO_DEVICE;
}
int cuDeviceGetCount(int *count) {
    TRY("cuDeviceGetCount");
    *count = (int)setting("CUDA_DEVICES", 1);
    return SUCCESS;
}
int cuDeviceGet(int *device, int number) {
    TRY("cuDeviceGet");
    *device = number;
    return SUCCESS;
}
int cuDeviceGetName(char *name, int length, int device) {
    TRY("cuDeviceGetName");
    snprintf(name, (size_t)length, "Test GPU %d", device);
    return SUCCESS;
}
int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    TRY("cuDeviceTotalMem");
    (void)device;
    *bytes = (size_t)setting("CUDA_MEMORY", 64 << 20);
    return SUCCESS;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    TRY("cuDeviceGetAttribute");
    (void)device;
    *value = attribute == 75 ? 7 : attribute == 76 ? 5 : attribute == 16 ? 2 : 0;
    return SUCCESS;
}
int cuDevicePrimaryCtxRetain(void **to, int device) {
    TRY("cuDevicePrimaryCtxRetain");
    (void)device;
    *to = &context;
    return SUCCESS;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
    (void)device;
    waits("cuDevicePrimaryCtxRelease");
    current_set = 0;
    return SUCCESS;
}
int cuCtxGetCurrent(void **to) {
    *to = current;
    return SUCCESS;
}
int cuCtxSetCurrent(void *to) {
    TRY("cuCtxSetCurrent");
    current = to;
    return SUCCESS;
}
int cuCtxSynchronize(void) {
    return SUCCESS;
}
int cuMemGetInfo_v2(size_t *free, size_t *total) {
    BOUND;
    TRY("cuMemGetInfo");
    *total = (size_t)setting("CUDA_MEMORY", 64 << 20);
    *free = *total - used;
    return SUCCESS;
}
int cuModuleLoadData(void **to, const char *ptx) {
    BOUND;
    TRY("cuModuleLoadData");
    if (!strstr(ptx, ".target sm_75") || !strstr(ptx, "lookup_rutter4"))
        fail("this is not the PTX");
    *to = &module;
    return SUCCESS;
}
int cuModuleUnload(void *module) {
    (void)module;
    waits("cuModuleUnload");
    return SUCCESS;
}

static const struct {
    const char *name;
    Kernel kernel;
    size_t width;
} KERNELS[] = {
#define FOUR(engine) {"lookup_" #engine, (Kernel)lookup_##engine, 4}
#define SIX(engine) {"lookup_" #engine, (Kernel)lookup_##engine, 16}
    FOUR(rutter4), SIX(rutter6), FOUR(bloomfwd), SIX(bloomfwd6), FOUR(miht), SIX(miht6),
    {"fill_words", (Kernel)fill_words, 4}, {"read_lines", (Kernel)read_lines, 4},
};
int cuModuleGetFunction(void **to, void *module, const char *name) {
    TRY("cuModuleGetFunction");
    (void)module;
    for (size_t i = 0; i < sizeof KERNELS / sizeof *KERNELS; i++)
        if (!strcmp(name, KERNELS[i].name)) {
            *to = (void *)&KERNELS[i];
            return SUCCESS;
        }
    return NOT_FOUND;
}

static int alloc(uint64_t *to, size_t bytes) {
    TRY("cuMemAlloc");
    if (bytes > (size_t)setting("CUDA_MEMORY", 64 << 20) - used)
        return OUT_OF_MEMORY;
    add(&device_blocks, (Block){*to = next_place, bytes, malloc(bytes), NULL});
    next_place += (bytes + (1 << 20)) & ~511ull;
    used += bytes;
    return SUCCESS;
}
int cuMemAlloc_v2(uint64_t *to, size_t bytes) {
    BOUND;
    LOCKED(alloc(to, bytes));
}
static int release(Block **list, uint64_t at) {
    Block block;
    waits(list == &device_blocks ? "cuMemFree" : "cuMemFreeHost");
    take_out(list, at, &block);
    unused(at, block.bytes);
    used -= list == &device_blocks ? block.bytes : 0;
    free(block.memory);
    return lost ? failure() : SUCCESS;
}
int cuMemFree_v2(uint64_t at) {
    LOCKED(release(&device_blocks, at));
}
static int alloc_host(void **to, size_t bytes) {
    TRY("cuMemHostAlloc");
    char *memory = aligned_alloc(4096, (bytes + 4095) & ~4095ull);
    add(&pinned_blocks, (Block){(uint64_t)memory, bytes, memory, NULL});
    *to = memory;
    return SUCCESS;
}
int cuMemHostAlloc(void **to, size_t bytes, unsigned flags) {
    (void)flags;
    BOUND;
    LOCKED(alloc_host(to, bytes));
}
int cuMemFreeHost(void *at) {
    LOCKED(release(&pinned_blocks, (uint64_t)at));
}

static int create(Stream **to) {
    TRY("cuStreamCreate");
    *to = calloc(1, sizeof **to);
    (*to)->last = &(*to)->first;
    (*to)->next = streams;
    streams = *to;
    return SUCCESS;
}
int cuStreamCreate(Stream **to, unsigned flags) {
    (void)flags;
    BOUND;
    LOCKED(create(to));
}
static int destroy(Stream *stream) {
    waits("cuStreamDestroy");
    if (stream->first && !lost)
        fail("a stream is destroyed that has work");
    Stream **each = &streams;
    while (*each != stream)
        each = &(*each)->next;
    *each = stream->next;
    while (stream->first)
        step(stream);
    free(stream);
    return SUCCESS;
}
int cuStreamDestroy_v2(Stream *stream) {
    LOCKED(destroy(stream));
}
static int query_stream(Stream *stream) {
    TRY("cuStreamQuery");
    step(stream);
    return stream->first ? NOT_READY : SUCCESS;
}
int cuStreamQuery(Stream *stream) {
    LOCKED(query_stream(stream));
}

int cuEventCreate(Event **to, unsigned flags) {
    (void)flags;
    BOUND;
    TRY("cuEventCreate");
    *to = calloc(1, sizeof **to);
    return SUCCESS;
}
int cuEventDestroy_v2(Event *event) {
    free(event);
    return SUCCESS;
}
static int record(Event *event, Stream *stream) {
    TRY("cuEventRecord");
    event->pending++;
    event->stream = stream;
    return put(stream, (Op){.kind = MARK, .event = event});
}
int cuEventRecord(Event *event, Stream *stream) {
    BOUND;
    LOCKED(record(event, stream));
}
static int query(Event *event) {
    TRY("cuEventQuery");
    if (event->pending)
        step(event->stream);
    return event->pending ? NOT_READY : SUCCESS;
}
int cuEventQuery(Event *event) {
    LOCKED(query(event));
}

static int copy(int kind, const char *name, uint64_t at, void *host, size_t bytes, Stream *stream) {
    TRY(name);
    on_device(at, bytes);
    return put(stream, (Op){.kind = kind, .host = host, .at = at, .bytes = bytes});
}
int cuMemcpyHtoDAsync_v2(uint64_t at, void *host, size_t bytes, Stream *stream) {
    BOUND;
    LOCKED(copy(IN, "cuMemcpyHtoDAsync", at, host, bytes, stream));
}
int cuMemcpyDtoHAsync_v2(void *host, uint64_t at, size_t bytes, Stream *stream) {
    BOUND;
    LOCKED(copy(OUT, "cuMemcpyDtoHAsync", at, host, bytes, stream));
}
static int launch(size_t kernel, unsigned blocks, unsigned threads, Stream *stream, void **arguments) {
    TRY("cuLaunchKernel");
    if (!blocks || !threads || threads > 1024)
        return INVALID_VALUE;
    Op op = {.kind = RUN, .kernel = KERNELS[kernel].kernel, .width = KERNELS[kernel].width};
    for (int i = 0; i < 3; i++)
        op.places[i] = *(uint64_t *)arguments[i];
    op.count = *(uint64_t *)arguments[3];
    return put(stream, op);
}
int cuLaunchKernel(void *kernel, unsigned blocks, unsigned y, unsigned z, unsigned threads,
                   unsigned ty, unsigned tz, unsigned shared, Stream *stream, void **arguments,
                   void **extra) {
    (void)y, (void)z, (void)ty, (void)tz, (void)shared, (void)extra;
    BOUND;
    size_t number = ((char *)kernel - (char *)KERNELS) / sizeof *KERNELS;
    LOCKED(launch(number, blocks, threads, stream, arguments));
}
static int text(int error, const char *words, const char **to) {
    *to = error == LAUNCH_FAILED ? words : NULL;
    return *to ? SUCCESS : INVALID_VALUE;
}
int cuGetErrorName(int error, const char **to) {
    return text(error, "CUDA_ERROR_LAUNCH_FAILED", to);
}
int cuGetErrorString(int error, const char **to) {
    return text(error, "unspecified launch failure", to);
}

/* Lookups on a device, one thread an address: the readers of `lookup`'s engines over the words
 * of an image (src/image.rs): figures, then where each array begins, then the arrays. What the
 * figures and arrays of an engine are, its `export.rs` says.
 *
 * The same code for both processors: nvrtc compiles it as CUDA C, any C compiler as C11
 * (host.c). Up to "the shim ends here" lies all in which they differ. No headers. */

#ifdef __CUDACC_RTC__
#define DEVICE static __device__ __forceinline__
#define KERNEL extern "C" __global__ void
#define ALIGNED __align__(16)
#define ONES(word) __popc(word)
#define LOG2_64(word) (63 - __clzll((long long)(word)))
#define EACH(i, count)                                                                            \
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count;                           \
         i += (u64)gridDim.x * blockDim.x)
#else
#define DEVICE static inline
#define KERNEL void
#define ALIGNED __attribute__((aligned(16)))
#define ONES(word) ((u32)__builtin_popcount(word))
#define LOG2_64(word) (63 - __builtin_clzll(word))
#define EACH(i, count) for (u64 i = 0; i < count; i++)
#endif
typedef unsigned int u32;
typedef unsigned long long u64;
/* The shim ends here. */

/* Four words that are read at once. */
typedef struct ALIGNED {
    u32 word[4];
} Quad;

/* An IPv6 address, a number: the lowest word first. */
typedef Quad Address6;

DEVICE u64 high_of(Address6 dst) {
    return dst.word[2] | (u64)dst.word[3] << 32;
}

DEVICE u64 low_of(Address6 dst) {
    return dst.word[0] | (u64)dst.word[1] << 32;
}

DEVICE u32 below(u32 hash, u64 n) {
    return (u32)((u64)hash * n >> 32);
}

/* -- rutter4 ------------------------------------------------------------------------------- */

/* Cell i of an array: of 32 bits, or two in a word. */
DEVICE u32 cell(const u32 *cells, u32 bits, u32 i) {
    return bits == 32 ? cells[i] : cells[i >> 1] >> (i & 1) * 16 & 0xffff;
}

DEVICE u32 rutter4(const u32 *image, u32 dst) {
    const u32 *start = image + 3;
    u32 bits = image[1], large_at = image[2], deep = 1u << (bits - 1);
    u32 root = image[start[0] + (dst >> 14)];
    u32 place = root >> 5;
    const u32 *cells = image + start[1];
    if (place >= large_at) {
        place -= large_at;
        cells = image + start[2];
    }
    u32 value = cell(cells, bits, place + ((dst & 0x3fff) >> (root & 31)));
    if (value & deep) {
        /* 256 bits, then the values, the last address's first: as many bits as are set from
         * this address on stand between the two. */
        u32 line = 512 / bits, low = dst & 0xff;
        u32 record = place + (value & ~deep) * line;
        const u32 *set = cells + record * bits / 32;
        u32 later = ONES(set[low >> 5] >> (low & 31));
        for (u32 i = (low >> 5) + 1; i < 8; i++)
            later += ONES(set[i]);
        value = cell(cells, bits, record + 256 / bits + later) & ~deep;
    }
    return value ? value : image[0];
}

KERNEL lookup_rutter4(const u32 *__restrict__ image, const u32 *dsts, u32 *hops, u64 count) {
    EACH(i, count) hops[i] = rutter4(image, dsts[i]);
}

/* -- rutter6 ------------------------------------------------------------------------------- */

#define FLAG 0x80000000u
/* In the entry of a deeper tree: it is a line alone. */
#define LINE 0x40000000u
#define UNIT 0x3fffffffu

/* How many of a unit's first `keys` words are less than x. They ascend, as signed numbers. */
DEVICE u32 rank(const u32 *unit, u32 keys, u32 x) {
    u32 less = 0;
    for (u32 i = 0; i < keys; i += 4) {
        Quad quad = *(const Quad *)(unit + i);
        for (u32 j = 0; j < 4; j++)
            less += i + j < keys && (int)quad.word[j] < (int)x;
    }
    return less;
}

/* The value for x in the tree of `entry`; with FLAG the number of a deeper tree. */
DEVICE u32 in_tree(const u32 *units, u32 bits, u32 entry, u32 x) {
    x ^= FLAG;
    for (u32 above = !(entry & LINE); above;) {
        above = entry & FLAG;
        const u32 *node = units + (u64)(entry & UNIT) * 16;
        entry = node[15] + rank(node, 15, x);
    }
    const u32 *line = units + (u64)(entry & UNIT) * 16;
    if (bits == 32)
        return line[7 + rank(line, 7, x)];
    u32 half = 20 + rank(line, 10, x);
    u32 value = line[half >> 1] >> (half & 1) * 16;
    return (value & 0x7fff) | (value & 0x8000) << 16;
}

DEVICE u32 rutter6(const u32 *image, Address6 dst) {
    const u32 *start = image + 2, *units = image + start[2];
    u64 high = high_of(dst), low = low_of(dst);
    u32 root = image[start[0] + (high >> 48)];
    u32 entry = image[start[1] + (root >> 6) + (u32)(high << 16 >> (root & 63))];
    u32 value = in_tree(units, image[1], entry, (u32)(high >> 16));
    u32 x[3] = {(u32)(high << 16) | (u32)(low >> 48), (u32)(low >> 16), (u32)(low << 16)};
    for (u32 level = 0; level < 3 && value & FLAG; level++)
        value = in_tree(units, image[1], image[start[3] + (value & ~FLAG)], x[level]);
    return value ? value : image[0];
}

KERNEL lookup_rutter6(const u32 *__restrict__ image, const Address6 *dsts, u32 *hops, u64 count) {
    EACH(i, count) hops[i] = rutter6(image, dsts[i]);
}

/* -- bloomfwd, bloomfwd6 ------------------------------------------------------------------- */

#define GOLDEN 0x9e3779b97f4a7c15ull
#define SALT 0x5bd1e995u
enum { MURMUR, KNUTH, H2 };

DEVICE u32 rotate(u32 word, u32 by) {
    return word << by | word >> (32 - by);
}

DEVICE u32 murmur_32(u32 key, u32 seed) {
    u32 hash = rotate(seed ^ rotate(key * 0xcc9e2d51u, 15) * 0x1b873593u, 13);
    hash = (hash * 5 + 0xe6546b64u) ^ 4;
    hash = (hash ^ hash >> 16) * 0x85ebca6bu;
    hash = (hash ^ hash >> 13) * 0xc2b2ae35u;
    return hash ^ hash >> 16;
}

DEVICE u64 murmur_64(u64 key) {
    key = (key ^ key >> 33) * 0xff51afd7ed558ccdull;
    key = (key ^ key >> 33) * 0xc4ceb9fe1a85ec53ull;
    return key ^ key >> 33;
}

DEVICE u32 h2(u32 key) {
    key = (key >> 16 ^ key) * 0x045d9f3bu;
    key = (key >> 16 ^ key) * 0x045d9f3bu;
    return key >> 16 ^ key;
}

/* Function 0 or 1 of a family, of a key of 32 bits. */
DEVICE u32 hash_32(u32 family, u32 key, u32 i) {
    if (family == MURMUR)
        return murmur_32(key, i * SALT);
    return family == KNUTH ? (key ^ i * SALT) * 0x9e3779b1u : h2(key ^ i * SALT);
}

/* And of one of 64. */
DEVICE u32 hash_64(u32 family, u64 key, u32 i) {
    if (family == MURMUR)
        return (u32)(murmur_64(key) >> (i ? 0 : 32));
    if (family == KNUTH)
        return (u32)((key ^ i * SALT * GOLDEN) * GOLDEN >> 32);
    return h2(h2((u32)(key >> 32) ^ i * SALT) ^ (u32)key);
}

/* All k bits of an element. */
DEVICE int passes(const u32 *filter, u64 bits, u32 k, u32 hash, u32 step) {
    for (u32 i = 0; i < k; i++, hash += step | 1) {
        u32 bit = below(hash, bits);
        if (!(filter[bit >> 5] >> (bit & 31) & 1))
            return 0;
    }
    return 1;
}

/* The value of a key of `words` words, that of the value left out: word 0 of the last pair. */
DEVICE u32 find(const u32 *index, const u32 *records, u32 buckets, u32 hash, const u32 *key,
                u32 words) {
    u32 header = index[below(hash, buckets)];
    if (!header)
        return 0;
    const u32 *record = records + (u64)(header & 0x7ffffff) * words;
    u32 count = header >> 27;
    if (count == 31) {
        count = record[0];
        record += words;
    }
    for (; count; count--, record += words) {
        int same = record[words - 1] == key[words - 1];
        for (u32 i = 0; i + 2 < words; i++)
            same &= record[i] == key[i];
        if (same)
            return record[words - 2];
    }
    return 0;
}

DEVICE u32 bloomfwd(const u32 *image, u32 dst) {
    u32 family = image[1], direct_bits = image[2], levels = image[3];
    const u32 *level = image + 7, *start = image + 7 + 5 * levels, *arrays = start + 3;
    for (; levels; levels--, level += 5, arrays += 3) {
        if (!level[0])
            continue;
        u32 masked = dst & ~0u << (32 - level[0]);
        u32 hash = hash_32(family, masked, 0), step = hash_32(family, masked, 1);
        if (!passes(image + arrays[0], level[2] | (u64)level[3] << 32, level[1], hash, step))
            continue;
        u32 key[2] = {0, masked};
        u32 hop = find(image + arrays[1], image + arrays[2], level[4], hash, key, 2);
        if (hop)
            return hop;
    }
    u32 hop = direct_bits ? image[start[0] + (dst >> (32 - direct_bits))] : 0;
    return hop ? hop : image[0];
}

KERNEL lookup_bloomfwd(const u32 *__restrict__ image, const u32 *dsts, u32 *hops, u64 count) {
    EACH(i, count) hops[i] = bloomfwd(image, dsts[i]);
}

/* The longest prefix beyond /64. */
DEVICE u32 deep(const u32 *image, const u32 *start, u64 high, u64 low) {
    u64 lengths = image[4] | (u64)image[5] << 32;
    while (lengths) {
        u32 bit = LOG2_64(lengths), len = bit + 65;
        lengths &= ~(1ull << bit);
        u64 masked = low & ~0ull << (128 - len);
        u64 upper = murmur_64(high + len);
        u64 seed = (u64)len << 32 ^ GOLDEN;
        u32 hash = (u32)murmur_64((masked ^ upper) + seed);
        u32 key[6] = {(u32)high, (u32)(high >> 32), (u32)masked, (u32)(masked >> 32), 0, len};
        u32 hop = find(image + start[1], image + start[2], image[6], hash, key, 6);
        if (hop)
            return hop;
    }
    return 0;
}

DEVICE u32 bloomfwd6(const u32 *image, Address6 dst) {
    u64 high = high_of(dst), low = low_of(dst);
    u32 family = image[1], levels = image[3];
    const u32 *level = image + 7, *start = image + 7 + 5 * levels, *arrays = start + 3;
    for (; levels; levels--, level += 5, arrays += 3) {
        if (!level[0])
            continue;
        u64 masked = high & ~0ull << (64 - level[0]);
        u32 hash = hash_64(family, masked, 0), step = hash_64(family, masked, 1);
        if (!passes(image + arrays[0], level[2] | (u64)level[3] << 32, level[1], hash, step))
            continue;
        u32 key[4] = {(u32)masked, (u32)(masked >> 32), 0, 0};
        u32 hop = find(image + arrays[1], image + arrays[2], level[4], hash, key, 4);
        if (hop >> 31) {
            u32 longer = deep(image, start, high, low);
            hop = longer ? longer : hop & 0x7fffffff;
        }
        if (hop)
            return hop;
    }
    return image[0];
}

KERNEL lookup_bloomfwd6(const u32 *__restrict__ image, const Address6 *dsts, u32 *hops, u64 count) {
    EACH(i, count) hops[i] = bloomfwd6(image, dsts[i]);
}

/* -- miht, miht6 --------------------------------------------------------------------------- */

#define NONE 0xffffffffu

/* The last place of an i-node whose key is not greater; 0 if all are. */
DEVICE u32 place(const u32 *node, u32 order, u32 key) {
    u32 i = 0;
    for (u32 half = order / 2; half; half /= 2)
        i += node[i + half] <= key ? half : 0;
    return i;
}

/* The priority trie of a key. */
DEVICE u32 trie_of(const u32 *image, const u32 *inodes, u32 order, u32 key) {
    u32 at = image[2], levels = image[3];
    if (!levels)
        return NONE;
    for (;; levels--) {
        const u32 *node = inodes + (u64)at * 2 * order;
        u32 i = place(node, order, key);
        if (levels == 1)
            return node[i] == key ? node[order + i] : NONE;
        at = node[order + i];
    }
}

/* The hop of the longest prefix in a priority trie that covers `suffix`; 0 if none does. */
DEVICE u32 walk(const u32 *dnodes, u32 at, u32 suffix) {
    u32 best = 0;
    for (u32 left = suffix; at != NONE; left <<= 1) {
        Quad node = *(const Quad *)(dnodes + (u64)at * 4);
        u32 len = node.word[3] & 0xff;
        if (!len || !((node.word[3] ^ suffix) >> (32 - len))) {
            best = node.word[2] & ~FLAG;
            if (node.word[2] & FLAG)
                break;
        }
        at = left & FLAG ? node.word[1] : node.word[0];
    }
    return best;
}

DEVICE u32 miht(const u32 *image, u32 dst) {
    const u32 *start = image + 5, *dnodes = image + start[1];
    u32 k = image[1];
    u32 hop = walk(dnodes, trie_of(image, image + start[0], 16, dst >> (32 - k)), dst << k);
    hop = hop ? hop : walk(dnodes, image[4], dst);
    return hop ? hop : image[0];
}

KERNEL lookup_miht(const u32 *__restrict__ image, const u32 *dsts, u32 *hops, u64 count) {
    EACH(i, count) hops[i] = miht(image, dsts[i]);
}

DEVICE u32 walk6(const u32 *dnodes, u32 at, u64 high, u64 low) {
    u32 best = 0;
    for (u64 left = high, behind = low; at != NONE; left = left << 1 | behind >> 63, behind <<= 1) {
        Quad node = *(const Quad *)(dnodes + (u64)at * 8);
        Quad prefix = *(const Quad *)(dnodes + (u64)at * 8 + 4);
        u32 len = node.word[3] & 0xff;
        u64 upper = (prefix.word[0] | (u64)prefix.word[1] << 32) ^ high;
        u64 lower = (prefix.word[2] | (u64)prefix.word[3] << 32) ^ low;
        u64 upper_mask = len >= 64 ? ~0ull : ~(~0ull >> len);
        u64 lower_mask = len <= 64 ? 0 : ~0ull << (128 - len);
        if (!(upper & upper_mask) && !(lower & lower_mask)) {
            best = node.word[2];
            if (node.word[3] & FLAG)
                break;
        }
        at = left >> 63 ? node.word[1] : node.word[0];
    }
    return best;
}

DEVICE u32 miht6(const u32 *image, Address6 dst) {
    const u32 *start = image + 5, *dnodes = image + start[1];
    u64 high = high_of(dst), low = low_of(dst);
    u32 k = image[1], trie = trie_of(image, image + start[0], 32, (u32)(high >> (64 - k)));
    u32 hop = walk6(dnodes, trie, high << k | low >> (64 - k), low << k);
    hop = hop ? hop : walk6(dnodes, image[4], high, low);
    return hop ? hop : image[0];
}

KERNEL lookup_miht6(const u32 *__restrict__ image, const Address6 *dsts, u32 *hops, u64 count) {
    EACH(i, count) hops[i] = miht6(image, dsts[i]);
}

/* -- what a device's memory does ----------------------------------------------------------- */

/* Words that both processors know: word i is h2(i). */
KERNEL fill_words(const u32 *none, const u32 *nothing, u32 *words, u64 count) {
    (void)none, (void)nothing;
    EACH(i, count) words[i] = h2((u32)i);
}

/* The sums of 16 words each, of random lines of 32 bytes: no read waits for another. Word 0 is how
 * many lines there are, and the first of them is words 8 to 15. */
KERNEL read_lines(const u32 *__restrict__ memory, const u32 *seeds, u32 *sums, u64 count) {
    u32 lines = memory[0];
    EACH(i, count) {
        u32 sum = 0;
        for (u32 j = 0; j < 16; j++)
            sum += memory[8 + (u64)below(h2(seeds[i] + j * SALT), lines) * 8];
        sums[i] = sum;
    }
}

// Hash maps of C++ for the lab: each as its documentation says, with its own hash. Those
// whose headers this machine lacks are left out, and lab_map knows no such name.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <new>
#include <unordered_map>
#include <utility>

#ifdef LAB_TBB
#include <tbb/concurrent_hash_map.h>
#include <tbb/concurrent_unordered_map.h>
#endif
#ifdef LAB_ABSL
#include <absl/container/flat_hash_map.h>
#endif
#if __has_include(<sparsehash/dense_hash_map>)
#define LAB_SPARSEHASH
#include <sparsehash/dense_hash_map>
#include <sparsehash/sparse_hash_map>
#endif
#if __has_include(<boost/unordered/unordered_flat_map.hpp>)
#define LAB_BOOST
#include <boost/unordered/unordered_flat_map.hpp>
#endif

namespace {

using Key = std::uint64_t;
using Value = std::uint16_t;

// What a key that is not there has.
constexpr Value absent = 0xffff;

// No key of the lab is as large: they have 60 bits.
[[maybe_unused]] constexpr Key empty_key = ~Key{0};
[[maybe_unused]] constexpr Key deleted_key = ~Key{0} - 1;

// What most maps have in common.
template <class M> struct Usual {
	M map;
	Usual() = default;
	explicit Usual(std::size_t room) { map.reserve(room); }
	void put(Key key, Value value) { map[key] = value; }
	void take(Key key) { map.erase(key); }
	Value find(Key key) const
	{
		auto found = map.find(key);
		return found == map.end() ? absent : found->second;
	}
	// 0 where it does not say.
	std::size_t bytes() const { return 0; }
};

#ifdef LAB_TBB
struct TbbHashMap {
	tbb::concurrent_hash_map<Key, Value> map;
	explicit TbbHashMap(std::size_t room) : map(room) {}
	void put(Key key, Value value)
	{
		decltype(map)::accessor at;
		map.insert(at, key);
		at->second = value;
	}
	void take(Key key) { map.erase(key); }
	Value find(Key key) const
	{
		decltype(map)::const_accessor at;
		return map.find(at, key) ? at->second : absent;
	}
	std::size_t bytes() const { return 0; }
};

struct TbbUnordered : Usual<tbb::concurrent_unordered_map<Key, Value>> {
	using Usual::Usual;
	// Only when nobody else has the map, as the name says.
	void take(Key key) { map.unsafe_erase(key); }
};
#endif

#ifdef LAB_SPARSEHASH
struct Dense : Usual<google::dense_hash_map<Key, Value>> {
	explicit Dense(std::size_t room)
	{
		map.set_empty_key(empty_key);
		map.set_deleted_key(deleted_key);
		map.resize(room);
	}
	// One array: its places hold keys and values.
	std::size_t bytes() const { return map.bucket_count() * sizeof(std::pair<const Key, Value>); }
};

struct Sparse : Usual<google::sparse_hash_map<Key, Value>> {
	explicit Sparse(std::size_t room)
	{
		map.set_deleted_key(deleted_key);
		map.resize(room);
	}
};
#endif

} // namespace

extern "C" {

// One kind of map. Beside a `bulk` another may run; beside a `put` or `take` nothing.
struct lab_map_ops {
	// Null where there is no memory.
	void *(*make)(std::size_t room);
	void (*free)(void *map);
	// 0, or 1 where there is no memory.
	int (*put)(void *map, Key key, Value value);
	void (*take)(void *map, Key key);
	void (*bulk)(const void *map, const Key *keys, Value *values, std::size_t n);
	// 0 where the map does not say.
	std::size_t (*bytes)(const void *map);
};

} // extern "C"

namespace {

template <class M> const lab_map_ops *ops()
{
	static const lab_map_ops all = {
		[](std::size_t room) -> void * {
			try {
				return new M(room);
			} catch (...) {
				return nullptr;
			}
		},
		[](void *map) { delete static_cast<M *>(map); },
		[](void *map, Key key, Value value) {
			try {
				static_cast<M *>(map)->put(key, value);
				return 0;
			} catch (...) {
				return 1;
			}
		},
		[](void *map, Key key) { static_cast<M *>(map)->take(key); },
		[](const void *map, const Key *keys, Value *values, std::size_t n) {
			const M &of = *static_cast<const M *>(map);
			for (std::size_t i = 0; i < n; i++)
				values[i] = of.find(keys[i]);
		},
		[](const void *map) { return static_cast<const M *>(map)->bytes(); },
	};
	return &all;
}

struct Named {
	const char *name;
	const lab_map_ops *ops;
};

} // namespace

// The map of that name; null where this build has none.
extern "C" const lab_map_ops *lab_map(const char *name)
{
	const Named all[] = {
		{ "std-unordered", ops<Usual<std::unordered_map<Key, Value>>>() },
#ifdef LAB_TBB
		{ "tbb-hash", ops<TbbHashMap>() },
		{ "tbb-unordered", ops<TbbUnordered>() },
#endif
#ifdef LAB_SPARSEHASH
		{ "google-dense", ops<Dense>() },
		{ "google-sparse", ops<Sparse>() },
#endif
#ifdef LAB_ABSL
		{ "absl-flat", ops<Usual<absl::flat_hash_map<Key, Value>>>() },
#endif
#ifdef LAB_BOOST
		{ "boost-flat", ops<Usual<boost::unordered_flat_map<Key, Value>>>() },
#endif
	};
	for (const Named &one : all)
		if (std::strcmp(one.name, name) == 0)
			return one.ops;
	return nullptr;
}

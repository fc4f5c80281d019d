#!/usr/bin/env bash
# What takes minutes or nightly Rust. Each part is a function, to be run alone:
#
#   scripts/deep.sh [miri|loom|stress|asan|tsan|fuzz|mutants …]      default: all
#
# MINUTES (default 10) is shared by the fuzz targets; mutants has as many again.
set -euo pipefail
cd "$(dirname "$0")/.."

MINUTES=${MINUTES:-10}
host=$(rustc -vV | sed -n 's/^host: //p')
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")

# Undefined behaviour in what is unsafe and runs without system calls; tables are
# small under miri.
miri() {
	MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-permissive-provenance" PROPTEST_CASES=4 \
		cargo +nightly miri test --target-dir "$target/miri" -p wire -p lookup -p io --lib
}

# The interleavings of docs/adr/0001-publication.md, and of the rings.
loom() {
	RUSTFLAGS="--cfg loom" CARGO_PROFILE_RELEASE_LTO=off cargo test --target-dir "$target/loom" --release -p lookup -p graph --lib loom_tests
}

# Tables that change while they are read, for a share of MINUTES each.
stress() {
	LOOKUP_STRESS_SECONDS=$((MINUTES * 60 / 8)) cargo test --release -p lookup --lib \
		what_stays_is_found -- --test-threads=1
}

# Memory errors in everything that handles packets; the captures beside the
# repository, or under RUTTER_DATA, are replayed whole and damaged (nodes).
asan() {
	RUSTFLAGS=-Zsanitizer=address ASAN_OPTIONS=detect_leaks=0 \
		cargo +nightly test --target "$host" --target-dir "$target/asan" \
		-p wire -p lookup -p io -p graph -p nodes -p tables -p formats
}

# Data races in publication, rings, tables; std is built with the sanitizer too.
tsan() {
	RUSTFLAGS=-Zsanitizer=thread TSAN_OPTIONS=halt_on_error=1 \
		cargo +nightly test -Zbuild-std --target "$host" --target-dir "$target/tsan" \
		-p lookup -p tables -p io -p graph --lib
}

fuzz() {
	local targets seconds name
	targets=$(cargo +nightly fuzz list)
	seconds=$((MINUTES * 60 / $(wc -w <<<"$targets")))
	for name in $targets; do
		echo "--- $name: $seconds s"
		cargo +nightly fuzz run --features libfuzzer "$name" -- -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096
	done
}

# Changes that no test notices: a list to read, not a verdict.
mutants() {
	timeout "$((MINUTES * 60))" cargo mutants --no-shuffle -j 1 -o "$target" \
		-p wire -p tables -p formats || [ $? = 2 ] || [ $? = 3 ] || [ $? = 124 ]
	cat "$target/mutants.out/missed.txt"
}

parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(miri loom stress asan tsan fuzz mutants)
for part in "${parts[@]}"; do
	printf '\n=== %s\n' "$part"
	"$part"
done
printf '\ndone: %s\n' "${parts[*]}"

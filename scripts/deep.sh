#!/usr/bin/env bash
# What takes minutes or nightly Rust. Each part is a function, to be run alone:
#
#   scripts/deep.sh [msrv|miri|loom|check|growth|stress|instructions|profiles|programs|ptx|gpu_suite|demo|xdp|asan|tsan|fuzz|mutants …]      default: all
#
# MINUTES (default 10) is shared by the fuzz targets; each crate of mutants has as many again.
set -euo pipefail
cd "$(dirname "$0")/.."

MINUTES=${MINUTES:-10}
host=$(rustc -vV | sed -n 's/^host: //p')
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")

# The oldest Rust that Cargo.toml promises.
msrv() {
	cargo "+$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)" check --target-dir "$target/msrv" --locked --workspace --all-targets
}

# Undefined behaviour in what is unsafe and runs without system calls: `wire` forbids
# unsafe code, and of `io` what reads captures has none. The tables have
# their real layouts; the tests have few routes and few lookups (`cfg!(miri)`). Tree
# borrows, and shared arrays taken as a whole: stacked borrows look at each word of an
# array for each reference to it. Tags are collected often, because each access to an
# array looks at all that it has. The tests are named in full, because miri takes longer
# to search a thousand names for a part than for a small engine. Miri has no AVX2, so an
# engine's default suite is its portable one. What is not done in MINUTES is cut off and
# named: it has shown nothing. docs/VERIFIED.md has how long each took. MIRI_TESTS
# names others: a line for each run, a crate and filters as cargo test takes them; behind the
# crate's name and a colon the features that it is to have, and no others.
miri() {
	local model="-Zmiri-tree-borrows -Zmiri-tree-borrows-no-precise-interior-mut -Zmiri-provenance-gc=1500"
	export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-permissive-provenance $model" PROPTEST_CASES=4
	local package filters names cut_off=()
	while read -ra filters; do
		package=(-p "${filters[0]%%:*}" --lib)
		[[ ${filters[0]} != *:* ]] || package+=(--no-default-features --features "${filters[0]#*:}")
		names=$(cargo test -q "${package[@]}" -- --list "${filters[@]:1}" </dev/null | sed -n 's/: test$//p')
		# shellcheck disable=SC2086 # a name is a word
		timed_miri "${filters[*]}" "${package[@]}" -- --exact $names
	done <<<"${MIRI_TESTS:-$MIRI_ALL}"
	# What such code forgets is lost, which is all that it can do.
	MIRIFLAGS+=" -Zmiri-ignore-leaks"
	timed_miri 'io, from safe code' -p io --test safe
	timed_miri 'graph, from safe code' -p graph --test safe
	[ ${#cut_off[@]} = 0 ] || printf 'cut off, and so not checked: %s\n' "${cut_off[@]}"
	printf 'not for miri: %s\n' "${NOT_MIRI[@]}"
}

# What has unsafe code, or depends on it, and cannot run there.
NOT_MIRI=(
	'offload::devices::cuda and the kernels: C, or the driver; its tests have a driver that checks each access'
	'policy::lua: LuaJIT is C, and makes machine code'
	'policy::bpf, compiled: machine code of DPDK; the interpreter and the check have no unsafe code'
	'policy::cell, processes, seals and limits: system calls (memfd, seccomp, fork)'
	'nodes, all but a few: they have no unsafe code, and what they depend on is in the lines above'
	'nodes, models of queues (a_queue_is_its_model, as_lists), gatekeeper::solicitor::tests, grantor::tests::forward: longer than MINUTES'
)

MIRI_ALL=$(
	cat <<-end
		io --skip pcap::
		graph
		lookup sync::
		lookup filter::
		lookup rutter4::tests:: --skip tests::conformance --skip tests::wide
		lookup rutter6::tests::portable
		lookup rutter6::tests:: --skip tests::conformance --skip tests::wide --skip tests::portable
		lookup dxr::tests::portable
		lookup dir24_8::tests
		lookup mac_table::tests::grows
		lookup exact::cuckoo::tests::batch_14
		lookup vpp::cuvpp::tests::conformance
		lookup sail::l::tests::conformance
		lookup poptrie::tests::portable
		lookup exact::flow
		offload image::
		offload calibrate:: threads_answer
		policy:cell cell::
		nodes gatekeeper::solicitor::bucket gatekeeper::solicitor::queue --skip a_queue_is_its_model
		nodes grantor::park grantor::gather grantor::messages --skip as_lists
		nodes gatekeeper::tests::stock::programs_that_err
	end
)

# One run under miri: its name, then cargo's arguments; adds to `cut_off`.
timed_miri() {
	local name=$1 status=0 begun=$SECONDS
	shift
	printf -- '--- %s, for %s minutes at most\n' "$name" "$MINUTES"
	timeout "$((MINUTES * 60))" cargo +nightly miri test --target-dir "$target/miri" "$@" </dev/null || status=$?
	printf -- '--- %s: status %s after %s s\n' "$name" "$status" "$((SECONDS - begun))"
	[ "$status" != 124 ] || cut_off+=("$name")
	[ "$status" = 0 ] || [ "$status" = 124 ] || exit 1
}

# The interleavings of docs/adr/0001-publication.md, and of the rings.
loom() {
	RUSTFLAGS="--cfg loom" CARGO_PROFILE_RELEASE_LTO=off cargo test --target-dir "$target/loom" --release -p lookup -p graph -p nodes --lib loom_tests
}

# A million changes of routes that come and go, in a small table and in one of 20,000 routes: no
# engine's table has more than twice the bytes of a fresh one, and a rest. A line each says how many
# changes there were: an engine that is built anew for most of them gets fewer.
growth() {
	RUTTER_CHANGES=1000000 cargo test --locked --release -p lookup --lib -- --nocapture memory_stays_near_a_fresh_build
}

# Every engine on every table and update stream of the data folder, and on generated tables, of
# 2,000,000 prefixes and with many long ones: a line each; the disagreements are counted at the end.
# An engine may refuse a table for a limit that its card names: status 2.
check() {
	cargo build --locked --release -p cli
	local data=${RUTTER_DATA:-../shared/data} engine table wrong=0
	for engine in $("$target/release/rutter" engines | awk '$2 ~ /^ipv/ { print $1 }'); do
		for table in internet:2000000 internet6:2000000 internet:608000+200000,long=22 internet6:200000,long=60 "$data"/fib/* "$data"/mrt/bview* "$data"/mrt/rib*; do
			checked "$engine" "$table" || wrong=$((wrong + 1))
		done
		for stream in "$data"/updates/* "$data"/mrt/updates*; do
			for table in internet:100000+50000 "$data"/fib/libloc-*; do
				checked "$engine" "$table" --updates "$stream" || wrong=$((wrong + 1))
			done
		done
	done
	[ "$wrong" = 0 ]
}

# One line of `check`: fails only where an answer was wrong.
checked() {
	local status=0 engine=$1 table=$2
	shift 2
	[ -e "$table" ] || [[ $table = internet* ]] || return 0
	"$target/release/rutter" check -e "$engine" -t "$table" "$@" >"$target/check.txt" 2>&1 || status=$?
	! grep -q 'has no such prefix' "$target/check.txt" || return 0
	printf '%s %s %s: status %s, %s\n' "$engine" "${table##*/}" "${*##*/}" "$status" "$(paste -sd';' "$target/check.txt")"
	[ "$status" = 0 ] || [ "$status" = 2 ]
}

# Tables that change while they are read, for a share of MINUTES each.
stress() {
	LOOKUP_STRESS_SECONDS=$((MINUTES * 60 / 8)) cargo test --release -p lookup --lib -- \
		what_stays_is_found outlives_two_publishers --test-threads=1
}

# What forwarding and a shield take of instructions a packet, by callgrind, and the bounds of that.
instructions() {
	scripts/compare.py --bounds
}

# docs/lab/PROFILES.md has all engines and rivals, and its counts, but for DPDK's, are those of this
# tree. Two minutes of processor time, when the program is built.
profiles() {
	cargo build --locked --profile count -p lab --features lab/rivals --bin rutter-lab
	scripts/profile.py --check --lab "$target/count/rutter-lab"
}

# Random programs by our interpreter, by DPDK's and by its compiler: some thousands a minute.
programs() {
	RUTTER_PROGRAMS=$((MINUTES * 2000)) cargo test --locked -p policy --features dpdk --test bpf -- --nocapture random_programs
}

# The kernels for devices, compiled anew: byte for byte what is committed.
ptx() {
	mkdir -p "$target/ptx"
	scripts/ptx.sh "$target/ptx"
	cmp "$target/ptx/lookup.ptx" crates/offload/kernels/lookup.ptx
}

# The lab for machines with a GPU: its size, and the C library that it needs.
gpu_suite() {
	scripts/gpu-suite.sh
}

# `make demo` with a small table and a debug build: half a minute. It ends with status 0, and as its
# last step a client loads pages behind the shield.
demo() {
	cargo build --locked -p cli
	"$target/debug/rutter" demo --quick | tee "$target/demo.txt"
	grep -q '^\[4/4\] after .* client: [1-9][0-9]* times' "$target/demo.txt"
}

# A shield over AF_XDP, on a debug build: half a minute.
xdp() {
	cargo build --locked -p cli
	RUTTER=$target/debug/rutter RUTTER_SMOKE_DEVICE=net_af_xdp scripts/smoke/run.sh gatekeeper
}

# Memory errors in everything that handles packets, and in bulk lookups; `rutter_asan` has pools say which
# of their memory belongs to nobody (crates/io/src/shadow.rs, and tests/asan.rs, which
# shows that it is caught). The captures beside the
# repository, or under RUTTER_DATA, are replayed whole and damaged (nodes). It does
# not see beyond the ends of mapped arrays (lookup::pages). Seen on one core of a
# Xeon: 9 minutes of building, then lookup 5 of processor time, nodes 20 s, tables 37 s,
# formats 37 s, the others 3 s.
# Of policies: rings, programs by interpreter and as machine code that is freed under traffic, Lua. Not `tests/cell`,
# whose processes have limits of memory and system calls that the sanitizer cannot live within.
# `offload` takes a minute and a half.
asan() {
	export RUSTFLAGS="-Zsanitizer=address --cfg rutter_asan" ASAN_OPTIONS=detect_leaks=0
	local test=(cargo +nightly test --target "$host" --target-dir "$target/asan")
	# With machine code of programs: `nodes` replaces them under traffic.
	"${test[@]}" --tests --features policy/dpdk -p wire -p io -p graph -p nodes -p tables -p formats -p lookup
	"${test[@]}" -p policy --features dpdk --lib --test bpf
	# The kernels for devices, too, which are C here.
	CFLAGS=-fsanitize=address "${test[@]}" --tests -p offload
}

# Data races where threads meet: of lookup's tests only those in which they do; the
# rest has none to find. std is built with the sanitizer too (5 minutes of building).
# The sanitizer sees no gathers and no assembly: the suites with `isa = "portable"`
# are what it judges. Those of rutter6 without are left out: what a gather found is
# unordered to it (docs/adr/0001-publication.md). A table of flows is one worker's alone, but
# for the thread that touches its pages.
tsan() {
	export RUSTFLAGS=-Zsanitizer=thread TSAN_OPTIONS=halt_on_error=1
	local test=(cargo +nightly test -Zbuild-std --target "$host" --target-dir "$target/tsan" --lib)
	"${test[@]}" -p lookup -- sync:: filter::cuckoo readers_see_old_or_new what_stays pages::touch \
		--skip rutter6::tests::conformance --skip rutter6::tests::wide::
	"${test[@]}" -p tables -p io -p graph -p nodes
	# Without LuaJIT, which is not built with the sanitizer.
	"${test[@]}" -p policy --no-default-features --features cell,bpf
}

# Each target for its share of MINUTES. Inputs that reach something new are kept for the
# next run, but not among the corpora, which `make test` replays.
fuzz() {
	local targets seconds name
	targets=$(cargo +nightly fuzz list)
	seconds=$((MINUTES * 60 / $(wc -w <<<"$targets")))
	for name in $targets; do
		echo "--- $name: $seconds s"
		mkdir -p "$target/fuzz/$name"
		cargo +nightly fuzz run --features libfuzzer "$name" "$target/fuzz/$name" "$PWD/fuzz/corpus/$name" -- \
			-max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096
	done
}

# Changes that no test notices, of a sample (docs/MUTANTS.md): a list to read, not a verdict.
# MUTANTS names others: a line for each run, a crate and a shard as scripts/mutants.sh takes them.
mutants() {
	local crate shard
	while read -r crate shard; do
		printf -- '--- %s %s\n' "$crate" "$shard"
		timeout "$((MINUTES * 60))" scripts/mutants.sh "$crate" "$shard" </dev/null || [ $? = 124 ]
	done <<<"${MUTANTS:-$MUTANTS_ALL}"
}

MUTANTS_ALL=$(
	cat <<-end
		graph 0/45
		io 0/32
		feeds 0/28
		tables 0/160
		nodes 0/110
		wire 0/34
		formats 0/45
		offload 0/40
		lookup 0/300
	end
)

parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(msrv miri loom check growth stress instructions profiles programs ptx gpu_suite demo xdp asan tsan fuzz mutants)
for part in "${parts[@]}"; do
	printf '\n=== %s\n' "$part"
	("$part") # what a part exports is its own
done
printf '\ndone: %s\n' "${parts[*]}"

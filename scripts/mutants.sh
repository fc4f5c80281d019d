#!/usr/bin/env bash
# Changes of a crate's code that its tests do not notice: prints a row of the table of
# docs/MUTANTS.md, and below it the survivors.
#
#   scripts/mutants.sh CRATE [K/N] [OPTION …]     the Kth of N shards, from 0/N (default 0/1: all mutants), drawn
#                                                 evenly from all files; options go to cargo-mutants
#
# cargo-mutants (`cargo install cargo-mutants --locked`) makes the changes, in a copy of what
# is committed, one after the other; `.cargo/mutants.toml` says what it leaves out. Each costs
# a build and the crate's own tests, so that the copy and its builds are kept for the next run.
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || {
	sed -n '2,/^$/s/^# \{0,1\}//p' "$0"
	exit 2
}
crate=$1 shard=${2:-0/1}
shift $(($# > 1 ? 2 : 1))
cargo mutants --version >/dev/null 2>&1 || {
	echo 'cargo-mutants is missing: cargo install cargo-mutants --locked' >&2
	exit 2
}
here=$PWD
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/mutants
tree=$target/tree
mkdir -p "$target"
# Whatever a run before has left in it goes.
if [ -e "$tree/.git" ]; then
	git -C "$tree" checkout -q --force --detach "$(git rev-parse HEAD)"
else
	git worktree prune
	git worktree add -q --detach "$tree" HEAD
fi

# 2: some survived; 3: some took too long. Neither is a failure of this script's.
status=0
RUTTER_DATA=${RUTTER_DATA:-$(realpath -m "$here/../shared/data")} CARGO_TARGET_DIR=$target/build CARGO_INCREMENTAL=1 \
	cargo mutants --dir "$tree" --in-place --output "$target/$crate" --package "$crate" \
	--no-shuffle --sharding round-robin --shard "$shard" --colors never "$@" >&2 || status=$?
[ "$status" = 0 ] || [ "$status" = 2 ] || [ "$status" = 3 ] || exit "$status"
git -C "$tree" checkout -q --force --detach HEAD

python3 - "$target/$crate/mutants.out" "$crate" "$shard" "$(git rev-parse --short HEAD)" <<-'END'
	import json, sys
	folder, crate, shard, commit = sys.argv[1:]
	found = json.load(open(f"{folder}/outcomes.json"))
	print("| crate | shard | commit | tried | caught | survived | endless | do not compile |\n|---|---|---|---|---|---|---|---|")
	counts = (found[name] for name in ("total_mutants", "caught", "missed", "timeout", "unviable"))
	print(f"| `{crate}` | {shard} | {commit} | " + " | ".join(map(str, counts)) + " |")
	print(open(f"{folder}/missed.txt").read(), end="")
END

#!/usr/bin/env bash
# The lab for a machine with a GPU that has nothing else: one file, `rutter-lab`, without DPDK.
#
#   scripts/gpu-suite.sh [FOLDER]     builds it into FOLDER (target/gpu-suite), and shows that it is small
#                                     and runs where the C library is that of Debian 12
#
# There: `./rutter-lab gpu-suite -o records`. Its tables are generated, so it takes no other file.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly MOST_BYTES=$((20 << 20)) GLIBC=2.36
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=${1:-$target/gpu-suite}

# Where it runs, there is no repository.
RUTTER_COMMIT=$(git describe --always --abbrev=12 --dirty 2>/dev/null || echo unknown)
export RUTTER_COMMIT

cargo build --locked --release -p lab --no-default-features
mkdir -p "$out"
strip -o "$out/rutter-lab" "$target/release/rutter-lab"

bytes=$(stat -c %s "$out/rutter-lab")
newest=$(objdump -T "$out/rutter-lab" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1)
needs=$(objdump -p "$out/rutter-lab" | sed -n 's/^ *NEEDED *//p' | paste -sd' ')
printf '%s: %s bytes of at most %s, %s of at most %s, needs %s\n' \
	"$out/rutter-lab" "$bytes" "$MOST_BYTES" "$newest" "$GLIBC" "$needs"
[ "$bytes" -le "$MOST_BYTES" ]
[ "$(printf '%s\nGLIBC_%s\n' "$newest" "$GLIBC" | sort -V | tail -1)" = "GLIBC_$GLIBC" ]
! grep -q -e rte_ -e cuda <<<"$needs"

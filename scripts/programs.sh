#!/usr/bin/env bash
# The programs of a Gatekeeper, from their sources in crates/policy/programs:
#
#   scripts/programs.sh           compiles them, and writes SHA256, which has sources and objects
#   scripts/programs.sh FOLDER    compiles them into FOLDER, and changes nothing else
#
# Debian's clang 14 makes the objects that are committed, byte for byte; `make build` needs no
# clang, and `make test` compiles them anew and compares.
set -euo pipefail
cd "$(dirname "$0")/../crates/policy/programs"

readonly CLANG=clang-14
out=${1:-.}
command -v $CLANG >/dev/null || {
	echo "$CLANG is not installed" >&2
	exit 3
}
for source in *.c; do
	# DPDK 22.11 takes the instruction set v2. Parameters and state lie in the same bytes. A path in an object would be this machine's.
	$CLANG -O2 -target bpf -mcpu=v2 -fwrapv -fno-strict-aliasing -fno-ident -fno-addrsig -Wall -Wextra -Werror -Wno-unused-parameter \
		-c "$source" -o "$out/${source%.c}.bpf"
done
if [ $# = 0 ]; then
	# shellcheck disable=SC2035 # no name begins with a dash
	LC_ALL=C sha256sum *.bpf *.c *.h >SHA256
fi

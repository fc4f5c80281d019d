#!/usr/bin/env bash
# All tests, in the order in which they are likely to fail; stops at the first
# step that does. Stable Rust only; `make deep` has the rest. At the end it lists what
# was skipped; RUTTER_STRICT=1 makes each skip that scripts/skips.txt does not have a
# failure.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly LINTED=1.96
cargo=${CARGO:-cargo}
target=${CARGO_TARGET_DIR:-target}
begin=$SECONDS
mkdir -p "$target"
RUTTER_SKIPS=$(realpath "$target")/skips
export RUTTER_SKIPS
: >"$RUTTER_SKIPS"
# shellcheck source=scripts/skip.sh
. scripts/skip.sh
step() { printf '\n=== %s (at %d s)\n' "$*" $((SECONDS - begin)); }

# By file: a module that a macro declares (commands, experiments) is one that `cargo fmt` does not find.
step formatting
$cargo fmt --all --check
find crates fuzz -name '*.rs' -not -path '*/target/*' -print0 | xargs -0 rustfmt --check --edition 2024

# Each Rust brings lints that those before it did not have. What a Rust newer than the last that
# these sources were read with has to say is shown and fails nothing: the same sources pass on.
step clippy
version=$($cargo --version | cut -d ' ' -f 2)
deny=(-D warnings)
if [ "$(printf '%s\n' "$version" "$LINTED.99" | sort -V | head -n 1)" != "$version" ]; then
	echo "Rust $version is newer than $LINTED: what it warns of is shown, and is no failure"
	deny=()
fi
$cargo clippy --locked --workspace --all-targets -- "${deny[@]}"
$cargo clippy --locked --manifest-path fuzz/Cargo.toml --target-dir "$target" --all-targets -- "${deny[@]}"

# Unit, property and documentation tests, the layering test, goldens.
# Without root those that make network namespaces run in a user namespace.
step tests
if [ "$(id -u)" != 0 ] && scripts/userns.sh true 2>/dev/null; then
	host=$(${RUSTC:-rustc} -vV | sed -n 's/^host: //p' | tr a-z- A-Z_)
	env "CARGO_TARGET_${host}_RUNNER=$PWD/scripts/userns.sh" $cargo test --locked --workspace
else
	$cargo test --locked --workspace
fi

# The corpora of the fuzz targets, replayed by stable Rust.
if [ -e fuzz/Cargo.toml ]; then
	step "corpora of the fuzz targets"
	$cargo test --locked --manifest-path fuzz/Cargo.toml --target-dir "$target"
fi

# Every interleaving of publication and of the rings; another configuration, so
# another directory.
step loom
RUSTFLAGS="--cfg loom" CARGO_PROFILE_RELEASE_LTO=off $cargo test --locked --release \
	-p lookup -p graph --lib --target-dir "$target/loom" -- loom_tests

$cargo build --locked -p cli -p lab
step "install and uninstall"
scripts/install-check.sh "$target/debug/rutter"

step "smoke scripts"
smoke=0
RUTTER=$target/debug/rutter scripts/smoke/run.sh || smoke=$?
if [ $smoke = 3 ]; then
	# None could run: a failure, unless each may be skipped for the same reason.
	may_be_skipped smoke "$(tail -n 1 "$RUTTER_SKIPS" | cut -f 2)" || exit $smoke
elif [ $smoke != 0 ]; then
	exit $smoke
fi

if [ -s "$RUTTER_SKIPS" ]; then
	printf '\nskipped (%d):\n' "$(sort -u "$RUTTER_SKIPS" | wc -l)"
	sort -u "$RUTTER_SKIPS" | sed 's/^/  /; s/\t/: /'
fi
printf '\nall tests that could run passed in %d s\n' $((SECONDS - begin))

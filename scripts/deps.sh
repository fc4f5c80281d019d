#!/usr/bin/env bash
# Installs what a goal of the Makefile needs and this machine lacks, on Debian
# and its relatives, as root or through sudo; elsewhere prints what to install.
# Where nothing is missing it does nothing, and takes no time.
#
#   scripts/deps.sh build|demo|test|bench|deep     what to be ready for
#   RUTTER_NO_INSTALL=1                            only print, never install
set -euo pipefail

readonly RUST_MIN=1.88
readonly LOCK_WAIT_S=900
missing=() # Debian packages
notes=()   # what no package of Debian's gives

has() { command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || [ -x "/sbin/$1" ]; }

need() { # COMMAND PACKAGE
	has "$1" || missing+=("$2")
}

newer() { # VERSION MINIMUM
	[ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]
}

# A Rust that is on the PATH and new enough is used, whoever installed it.
rust() {
	local version
	version=$(cargo --version 2>/dev/null | cut -d ' ' -f 2) || true
	if [ -z "$version" ] && has rustup; then
		toolchain=1 # a rustup that has none yet; Debian's cargo cannot be installed beside it
	elif [ -z "$version" ]; then
		missing+=(cargo-web)
	elif ! newer "$version" "$RUST_MIN"; then
		if has rustup; then
			notes+=("Rust $RUST_MIN or newer (here: $version): rustup update stable")
		else
			# Debian's cargo is 1.63; cargo-web is new enough, and cannot stand beside it.
			missing+=(cargo-web)
			replace_rust=1
		fi
	fi
}

# What checks sources: of the same Rust.
rust_checks() {
	if cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1; then
		return 0
	elif has rustup; then
		components=1
	else
		missing+=(rustfmt-web rust-web-clippy)
	fi
}

# bindgen loads libclang, and that reads headers of its own version. Of several it is the
# last that io-dpdk's build script takes. `libclang-cpp` is another library.
libclang() {
	[ -z "${LIBCLANG_PATH:-}" ] || return 0
	local file found='' version=14
	for file in /usr/lib/llvm-*/lib/libclang.so* /usr/lib/llvm-*/lib/libclang-1*; do
		if [ -e "$file" ] && [[ ${file%/*} > $found ]]; then found=${file%/*}; fi
	done
	if [ -n "$found" ]; then
		version=${found#/usr/lib/llvm-} version=${version%/lib}
		compgen -G "$found/clang/*/include/stddef.h" >/dev/null || missing+=("libclang-common-$version-dev")
	elif ! compgen -G '/usr/lib*/libclang.so*' >/dev/null && ! compgen -G '/usr/lib/*/libclang.so*' >/dev/null; then
		missing+=("libclang1-$version" "libclang-common-$version-dev")
	fi
}

# A compiler that finds the headers of the C library: one package may be there without the other.
compiler() {
	has cc || missing+=(gcc)
	printf '#include <stdlib.h>\n' | cc -fsyntax-only -x c - >/dev/null 2>&1 || missing+=(libc6-dev)
}

# BIRD 1, a package of its own, reads other configurations.
bird2() {
	[[ $(PATH=$PATH:/usr/sbin:/sbin bird --version 2>&1) =~ version\ [2-9] ]] || missing+=(bird2)
}

build() {
	rust
	compiler
	need make make
	need git git
	need pkg-config pkg-config
	[ -e /etc/ssl/certs/ca-certificates.crt ] || missing+=(ca-certificates)
	pkg-config --exists libdpdk 2>/dev/null || missing+=(libdpdk-dev)
	libclang
}

demo() {
	build
	need ip iproute2
	need ping iputils-ping
	need traceroute traceroute
	need ethtool ethtool
	bird2
}

test_() {
	demo
	rust_checks
	need tracepath iputils-tracepath
	need tcpdump tcpdump
	need ps procps
	need python3 python3
	[ -x /usr/lib/frr/zebra ] || missing+=(frr)
	need keepalived keepalived
	need clang-14 clang-14
}

bench() {
	build
	need g++ g++
	# Rivals of the lab: what is missing is left out, and said so.
	[ -e /usr/include/tbb/concurrent_hash_map.h ] || missing+=(libtbb-dev)
	[ -e /usr/include/absl/container/flat_hash_map.h ] || missing+=(libabsl-dev)
	[ -e /usr/include/sparsehash/dense_hash_map ] || missing+=(libsparsehash-dev)
	# Debian 12's default is 1.74, which has no flat map.
	[ -e /usr/include/boost/unordered/unordered_flat_map.hpp ] || missing+=(libboost1.81-dev)
	need ip iproute2
	need ethtool ethtool
	need dpdk-testpmd dpdk-dev
	need valgrind valgrind
	need python3 python3
	bird2
}

deep() {
	test_
	need valgrind valgrind
	python3 -m pip --version >/dev/null 2>&1 || missing+=(python3-pip)
	if ! has rustup || ! rustup toolchain list 2>/dev/null | grep -q ^nightly; then
		notes+=("nightly Rust, from https://rustup.rs: rustup toolchain install nightly --component miri rust-src")
	elif ! cargo +nightly miri --version >/dev/null 2>&1; then
		notes+=("miri: rustup component add --toolchain nightly miri rust-src")
	fi
	local oldest
	oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
	rustup toolchain list 2>/dev/null | grep -q "^${oldest//./\\.}" ||
		notes+=("Rust $oldest, the oldest that is promised: rustup toolchain install $oldest --profile minimal")
	has cargo-fuzz || notes+=("cargo-fuzz: cargo install --locked cargo-fuzz")
	has cargo-mutants || notes+=("cargo-mutants: cargo install --locked cargo-mutants")
}

as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

may_install() {
	[ -z "${RUTTER_NO_INSTALL:-}" ] && has apt-get && { [ "$(id -u)" = 0 ] || has sudo; }
}

# A routing daemon that a package brings must not start here: the tests start
# their own, in namespaces. Debian asks this file before it starts a service.
without_services() {
	local policy=/usr/sbin/policy-rc.d ours=
	if [ ! -e "$policy" ]; then
		ours=1
		printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
		as_root chmod 755 "$policy"
	fi
	local status=0
	"$@" || status=$?
	if [ -n "$ours" ]; then as_root rm -f "$policy"; fi
	return "$status"
}

keep_disabled() { # SERVICE …: neither now nor at the next start of the machine
	local service
	for service in "$@"; do
		if has systemctl; then
			as_root systemctl disable "$service" >/dev/null 2>&1 || true
		elif has update-rc.d; then
			as_root update-rc.d "$service" disable >/dev/null 2>&1 || true
		fi
	done
}

# apt-get, after whoever else holds its locks: a machine that has just started updates
# itself for minutes. `DPkg::Lock::Timeout` waits for one of the locks alone.
apt() {
	local said='' output status end=$((SECONDS + LOCK_WAIT_S))
	while :; do
		status=0
		output=$(as_root env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get "$@" 2>&1) || status=$?
		if [ "$status" = 0 ]; then
			return 0
		elif ! grep -qE 'Could not get lock|Unable to (acquire|lock)' <<<"$output" || [ $SECONDS -ge $end ]; then
			printf '%s\n' "$output" >&2
			return "$status"
		fi
		if [ -z "$said" ]; then
			said=1
			echo "another apt is at work; waiting for it, at most $((LOCK_WAIT_S / 60)) minutes"
		fi
		sleep 3
	done
}

install_toolchain() {
	echo "installing: a Rust toolchain, by rustup"
	rustup toolchain install stable --profile minimal --component rustfmt --component clippy &&
		rustup default stable ||
		notes+=("a Rust toolchain, $RUST_MIN or newer: rustup default stable")
}

install_missing() {
	local refuse_removals=--no-remove services=() package
	[ -z "${replace_rust:-}" ] || refuse_removals=
	for package in "${missing[@]}"; do
		case $package in bird2) services+=(bird bird6) ;; frr | keepalived) services+=("$package") ;; esac
	done
	echo "installing (a minute or two): ${missing[*]}"
	apt update -qq
	without_services apt install -y -qq --no-install-recommends $refuse_removals "${missing[@]}"
	[ ${#services[@]} = 0 ] || keep_disabled "${services[@]}"
}

# What was installed may be too old all the same: Debian's newer Rust is in its security
# archive, which a minimal system may not list.
rust_is_enough() {
	local version
	version=$(cargo --version 2>/dev/null | cut -d ' ' -f 2) || true
	[ -n "$version" ] || return 0 # its installation has said why
	newer "$version" "$RUST_MIN" || notes+=("Rust $RUST_MIN or newer (here: $version); Debian 12 has it in its security archive:
    deb http://security.debian.org/debian-security bookworm-security main
    in /etc/apt/sources.list, then once more")
}

replace_rust='' toolchain='' components=''
case ${1:-} in
build | demo | bench | deep) "$1" ;;
test) test_ ;;
*)
	sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac

if [ ${#missing[@]} -gt 0 ]; then
	if may_install; then
		install_missing
	else
		notes+=("Debian packages (elsewhere, what corresponds to them):
    apt-get install -y --no-install-recommends ${missing[*]}")
	fi
fi
if [ -n "$toolchain" ]; then
	if [ -z "${RUTTER_NO_INSTALL:-}" ]; then
		install_toolchain
	else
		notes+=("a Rust toolchain, $RUST_MIN or newer: rustup default stable")
	fi
fi
if [ -n "$components" ] && [ -z "$toolchain" ]; then
	if [ -n "${RUTTER_NO_INSTALL:-}" ] || ! rustup component add rustfmt clippy; then
		notes+=("rustfmt and clippy: rustup component add rustfmt clippy")
	fi
fi
if [ ${#missing[@]} -gt 0 ] && [ ${#notes[@]} = 0 ]; then rust_is_enough; fi
if [ ${#notes[@]} -gt 0 ]; then
	{
		echo "make $1 needs, on this machine:"
		printf '  - %s\n' "${notes[@]}"
	} >&2
	exit 1
fi

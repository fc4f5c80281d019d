#!/usr/bin/env bash
# Installs into a folder that goes again, looks at what is there, and takes it
# away by `make uninstall`.
#
#   scripts/install-check.sh target/debug/rutter     beside it lies rutter-lab
set -euo pipefail
cd "$(dirname "$0")/.."

rutter=$(realpath "${1:?usage: install-check.sh BINARY}")
top=$(mktemp -d)
root="$top/a root"
mkdir "$root"
trap 'rm -rf "$top"' EXIT
fail() { echo "install: $*" >&2; exit 1; }
# shellcheck source=scripts/skip.sh
. scripts/skip.sh
installer() { # GOAL [NAME=VALUE …]
	make --no-print-directory "$@" DESTDIR="$root" PREFIX="/opt/my r" >"$root.log" 2>&1 || {
		cat "$root.log"
		fail "make $1"
	}
}

installer install RELEASE="$rutter"
for file in 'opt/my r/bin/rutter' 'opt/my r/bin/rutter-lab' etc/systemd/system/rutter.service etc/rutter/rutter.toml.example \
	'opt/my r/share/rutter/rutter-dpdk.conf' 'opt/my r/share/rutter/rutter-policies.conf' 'opt/my r/share/man/man5/rutter.toml.5' 'opt/my r/share/bash-completion/completions/rutter' \
	'opt/my r/share/zsh/site-functions/_rutter' 'opt/my r/share/fish/vendor_completions.d/rutter.fish'; do
	[ -s "$root/$file" ] || fail "$file is not there, or empty"
done
"$root/opt/my r/bin/rutter" version >/dev/null || fail "the binary does not run"
"$root/opt/my r/bin/rutter" lab list >/dev/null || fail "the router does not find its lab"
grep -q 'lpm/peers' "$root/opt/my r/share/bash-completion/completions/rutter" || fail "no experiment is completed"
"$root/opt/my r/bin/rutter" config check "$root/etc/rutter/rutter.toml.example" || fail "the example is no configuration"
grep -q '^ExecStart=/opt/my\\x20r/bin/rutter run ' "$root/etc/systemd/system/rutter.service" || fail "the unit starts something else"
grep -q '^RuntimeDirectoryPreserve=yes$' "$root/etc/systemd/system/rutter.service" || fail "the record of changed settings would go with a crash"
# A crash loop is seen: its rounds, at their slowest, are over before the limit forgets the first.
value() { sed -n "s/^$1=//p" "$root/etc/systemd/system/rutter.service"; }
slowest=$(($(value WatchdogSec) + $(value TimeoutStopSec) + $(value RestartSec)))
[ $slowest -gt "$(value TimeoutStartSec)" ] || slowest=$(($(value TimeoutStartSec) + $(value RestartSec)))
[ $((slowest * $(value StartLimitBurst))) -lt "$(value StartLimitIntervalSec)" ] || fail "a slow crash loop goes on for ever"
if command -v systemd-analyze >/dev/null; then
	# As installed, but for the path: what is started has to be there.
	mkdir "$top/unit"
	sed "s|/opt/my.*/bin/rutter run |$rutter run |" "$root/etc/systemd/system/rutter.service" >"$top/unit/rutter.service"
	said=$(systemd-analyze verify --man=no "$top/unit/rutter.service" 2>&1) || fail "the unit: $said"
	[ -z "$said" ] || fail "the unit: $said"
	# How much a fault in it could do, by systemd's own scale; 10 is everything.
	exposed() { # MOST WHAT
		local level
		level=$(SYSTEMD_COLORS=0 systemd-analyze security --offline=yes "$top/unit/rutter.service" 2>/dev/null |
			sed -n 's/.*exposure level for .*: \([0-9.]*\) .*/\1/p')
		[ -n "$level" ] || fail "systemd-analyze rates nothing"
		awk "BEGIN { exit !($level <= $1) }" || fail "$2 is exposed by $level of 10, $1 at most"
		echo "install: $2 is exposed by $level of 10"
	}
	exposed 3.0 "the unit"
	mkdir "$top/unit/rutter.service.d"
	with() { # FILE MOST WHAT
		cp "$root/opt/my r/share/rutter/$1" "$top/unit/rutter.service.d/"
		said=$(systemd-analyze verify --man=no "$top/unit/rutter.service" 2>&1) || fail "$3: $said"
		[ -z "$said" ] || fail "$3: $said"
		exposed "$2" "$3"
		rm "$top/unit/rutter.service.d/$1"
	}
	with rutter-dpdk.conf 5.0 "the unit for devices"
	with rutter-policies.conf 3.9 "the unit for policies"
else
	reason="the unit is not verified: systemd-analyze is not installed"
	skipped install-check "$reason" || fail "$reason"
fi
bash -n "$root/opt/my r/share/bash-completion/completions/rutter" || fail "the completion is no bash"
if command -v man >/dev/null; then
	warnings=$(LC_ALL=C.UTF-8 man --warnings -l "$root/opt/my r/share/man/man5/rutter.toml.5" 2>&1 >/dev/null)
	[ -z "$warnings" ] || fail "the manual page: $warnings"
else
	reason="the manual page is not looked at: man is not installed"
	skipped install-check "$reason" || fail "$reason"
fi

# The configuration stays; all else goes, also when it is done again.
echo '# mine' >"$root/etc/rutter/rutter.toml"
installer install RELEASE="$rutter"
installer uninstall
left=$(cd "$root" && find . -type f)
[ "$left" = ./etc/rutter/rutter.toml ] || fail "left behind: $left"
installer uninstall

# Through sudo nothing is built: where there is no lab, the router is installed without.
mkdir "$top/alone"
ln -s "$rutter" "$top/alone/rutter"
installer install RELEASE="$top/alone/rutter" SUDO_USER=me CARGO=false
grep -q '^without the lab' "$root.log" || fail "it does not say that the lab is missing"
[ -x "$root/opt/my r/bin/rutter" ] && [ ! -e "$root/opt/my r/bin/rutter-lab" ] || fail "the router alone is not there"
status=0
PATH=/usr/bin:/bin "$root/opt/my r/bin/rutter" lab list 2>"$root.log" || status=$?
[ "$status" = 2 ] && grep -q 'make lab' "$root.log" || fail "the router does not say how to get the lab: $status"
installer uninstall
rm -f "$root.log"
echo "install: all there, and gone again"

#!/usr/bin/env bash
# Installs into a folder that goes again, looks at what is there, and takes it
# away by `make uninstall`.
#
#   scripts/install-check.sh target/debug/rutter
set -euo pipefail
cd "$(dirname "$0")/.."

rutter=$(realpath "${1:?usage: install-check.sh BINARY}")
top=$(mktemp -d)
root="$top/a root"
mkdir "$root"
trap 'rm -rf "$top"' EXIT
fail() { echo "install: $*" >&2; exit 1; }
installer() { # GOAL
	make --no-print-directory "$1" RELEASE="$rutter" DESTDIR="$root" PREFIX="/opt/my r" >"$root.log" 2>&1 || {
		cat "$root.log"
		fail "make $1"
	}
	rm -f "$root.log"
}

installer install
for file in 'opt/my r/bin/rutter' etc/systemd/system/rutter.service etc/rutter/rutter.toml.example \
	'opt/my r/share/man/man5/rutter.toml.5' 'opt/my r/share/bash-completion/completions/rutter' \
	'opt/my r/share/zsh/site-functions/_rutter' 'opt/my r/share/fish/vendor_completions.d/rutter.fish'; do
	[ -s "$root/$file" ] || fail "$file is not there, or empty"
done
"$root/opt/my r/bin/rutter" version >/dev/null || fail "the binary does not run"
"$root/opt/my r/bin/rutter" config check "$root/etc/rutter/rutter.toml.example" || fail "the example is no configuration"
grep -q '^ExecStart=/opt/my\\x20r/bin/rutter run ' "$root/etc/systemd/system/rutter.service" || fail "the unit starts something else"
grep -q '^RuntimeDirectoryPreserve=yes$' "$root/etc/systemd/system/rutter.service" || fail "the record of changed settings would go with a crash"
bash -n "$root/opt/my r/share/bash-completion/completions/rutter" || fail "the completion is no bash"
if command -v man >/dev/null; then
	warnings=$(LC_ALL=C.UTF-8 man --warnings -l "$root/opt/my r/share/man/man5/rutter.toml.5" 2>&1 >/dev/null)
	[ -z "$warnings" ] || fail "the manual page: $warnings"
fi

# The configuration stays; all else goes, also when it is done again.
echo '# mine' >"$root/etc/rutter/rutter.toml"
installer install
installer uninstall
left=$(cd "$root" && find . -type f)
[ "$left" = ./etc/rutter/rutter.toml ] || fail "left behind: $left"
installer uninstall
echo "install: all there, and gone again"

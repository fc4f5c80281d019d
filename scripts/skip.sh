# How a script says that something could not be tried, as crates/testing does for tests.
# Sourced, in the root of the repository.
#
# shellcheck shell=bash

skipped() { # NAME REASON: false with RUTTER_STRICT=1, unless scripts/skips.txt has it
	[ -z "${RUTTER_SKIPS:-}" ] || printf '%s\t%s\n' "$1" "$2" >>"$RUTTER_SKIPS"
	[ "${RUTTER_STRICT:-}" != 1 ] || may_be_skipped "$1" "$2"
}

may_be_skipped() { # NAME REASON
	local name says why
	while IFS='|' read -r name says why; do
		read -r name <<<"$name" # takes the blanks around it away
		read -r says <<<"$says"
		case $name in '' | '#'*) continue ;; esac
		# shellcheck disable=SC2053 # the name may end with *
		if [ -n "$why" ] && [[ $1 = $name && $2 = *"$says"* ]]; then return 0; fi
	done <scripts/skips.txt
	return 1
}

#!/bin/sh
# Runs a command as root of a user namespace of its own: with a network of its own, the right
# to make more, and an empty /run for their names.
#
#   scripts/userns.sh COMMAND [ARGUMENT …]
# shellcheck disable=SC2016 # the inner shell expands
exec unshare --user --map-root-user --net --mount \
	sh -c 'mount -t tmpfs tmpfs /run && ip link set lo up && exec "$0" "$@"' "$@"

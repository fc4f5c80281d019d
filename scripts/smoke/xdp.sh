# Forwarding, fragments included, over AF_XDP.
[ -z "${RUTTER_SMOKE_USERNS:-}" ] || { echo "skip: AF_XDP needs more than a user namespace"; exit 77; }
export RUTTER_SMOKE_DEVICE=net_af_xdp
bash "$(dirname "$0")/forward.sh"
exec bash "$(dirname "$0")/pmtu.sh"

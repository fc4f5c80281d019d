#!/usr/bin/env bash
# The kernels of `offload` for devices, from their source in crates/offload/kernels:
#
#   scripts/ptx.sh           compiles them to lookup.ptx, and writes SHA256, which has source and PTX
#   scripts/ptx.sh FOLDER    compiles them into FOLDER, and changes nothing else
#
# NVIDIA's compiler comes as a wheel from PyPI, of one version and sum: what it makes is committed, byte
# for byte. It needs pip, and neither GPU nor CUDA. `make build` needs none of this; `make test` compares
# the sums, `make deep` compiles anew and compares.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly WHEEL=nvidia-cuda-nvrtc-cu12==12.0.76
readonly SUM=8dd4458a7d8bf8fd2b01a34a9069856d53a9b4c0af2037b77c12b270daf9c828
readonly PLATFORM=manylinux1_x86_64
kernels=crates/offload/kernels
out=${1:-$kernels}

python3 -m pip --version >/dev/null 2>&1 || {
	echo "pip is not installed" >&2
	exit 3
}
# It is kept with what is built. pip refuses a file of another sum.
kept=$(realpath -m "${CARGO_TARGET_DIR:-target}")/nvrtc
mkdir -p "$kept"
printf '%s --hash=sha256:%s\n' "$WHEEL" "$SUM" >"$kept/wheel.txt"
python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: \
	--platform "$PLATFORM" --python-version 3 --dest "$kept" -r "$kept/wheel.txt"
python3 scripts/ptx.py "$kept"/nvidia_cuda_nvrtc_cu12-*"$PLATFORM".whl "$kernels/lookup.cu" "$out/lookup.ptx"
if [ $# = 0 ]; then
	cd "$kernels"
	LC_ALL=C sha256sum lookup.cu lookup.ptx >SHA256
fi

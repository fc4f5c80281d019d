# Bulk lookups on devices: the same answers from every device, and when a device is lost.
. "$(dirname "$0")/lib.sh"
need python3

python3 - "$TMP/addresses.bin" <<-'END'
	import random, sys
	random.seed(1)
	open(sys.argv[1], "wb").write(random.randbytes(4 * 300000))
END
lookup() { rutter lookup --table internet:20000 --raw ipv4 "$@" <"$TMP/addresses.bin"; }

assert_status 1 lookup -o "$TMP/plain.bin"
assert_eq "$(stat -c %s "$TMP/plain.bin")" 1200000 "4 bytes an answer"
# Who sets the number of threads keeps a device that does less than a core.
for device in threads auto "model --threads 1" "model:lost=run@1 --threads 1" model:memory=1000 cuda; do
	for engine in rutter4 bloomfwd miht; do
		assert_status 1 lookup --device $device --engine "$engine" -o "$TMP/$engine.bin"
		cmp "$TMP/plain.bin" "$TMP/$engine.bin" || fail "$device and $engine differ from one thread"
	done
done
assert_status 1 lookup --device model:memory=1000 -o "$TMP/small.bin"
assert_match "$(cat "$TMP/status.out")" "; the cores go on alone" "a device without room"

# A run that fails leaves the former output file.
cp "$TMP/plain.bin" "$TMP/kept.bin"
assert_status 2 lookup --device threads --engine rutter6 -o "$TMP/kept.bin"
cmp "$TMP/plain.bin" "$TMP/kept.bin" || fail "a run that failed has changed its file"

rutter doctor >"$TMP/doctor.txt" || true
assert_match "$(cat "$TMP/doctor.txt")" "gpu" "doctor names GPUs, or that there is none"

#!/bin/sh
# SPDX-License-Identifier: MIT
# by-method COMMAND...: run a command in the way that KREPRO_METHOD names; what that yields lies beside its output.
# plain, and stock on a kernel without patches: only timed; exact: marked for the oracle; trace: by pagetrace with a
# window of KREPRO_WINDOW pages, and marked for the oracle; packed: by pagetrace, packed; stream: the same, to the host's
# port while it runs, and with KREPRO_MARK marked for the oracle; lackey; lackey-data: the same, its lines of data counted
# apart; faults: its page faults; soft-dirty: the pages that it writes to, every millisecond; damon. Its addresses are
# the same each time, whatever the method: no random ones, and an environment that says nothing of the method.
out=/run/krepro/out/$KREPRO_WORKLOAD method=$KREPRO_METHOD window=$KREPRO_WINDOW
case $method in
plain | stock) exec in-place timed "$out/$method.json" "$@" ;;
exact) exec in-place timed "$out/exact.json" roi-exec "$@" ;;
trace) exec in-place pagetrace -c -w "$window" -o "$out/trace" -s "$out/trace.json" -m "$out/maps" -- roi-exec "$@" ;;
stream)
	for at in /sys/class/virtio-ports/*; do
		[ "$(cat "$at/name")" = krepro.stream ] && port=/dev/${at##*/}
	done
	[ -c "$port" ] || {
		echo "by-method: the machine has no port krepro.stream: devices: [stream]" >&2
		exit 125
	}
	exec in-place pagetrace -c -z -l "$KREPRO_MOST_BYTES" -w "$window" -o "$port" -s "$out/trace.json" \
		-m "$out/maps" -- ${KREPRO_MARK:+roi-exec} "$@" ;;
packed)
	exec in-place pagetrace -c -z -w "$window" -o "$out/trace" -s "$out/trace.json" -m "$out/maps" -- "$@" ;;
lackey-data) exec in-place lackey -k "$out/lackey-data.json" "$@" ;;
lackey) exec in-place lackey "$out/lackey.json" "$@" ;;
faults) exec in-place faultrec -o "$out/faults.bin" "$out/faults.json" "$@" ;;
soft-dirty) exec in-place dirtyscan -i 1000 -o "$out/dirty.bin" "$out/soft-dirty.json" "$@" ;;
damon) exec in-place damonrec -s 1000 -a 20000 -o "$out/damon.trace" "$out/damon.json" "$@" ;;
esac
echo "by-method: KREPRO_METHOD is '$method', not plain, stock, exact, trace, packed, stream, lackey, lackey-data, faults, soft-dirty or damon" >&2
exit 2

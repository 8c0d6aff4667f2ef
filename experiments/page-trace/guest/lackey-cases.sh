#!/bin/sh
# SPDX-License-Identifier: MIT
# lackey-cases: run those cases of pageknown under lackey that a person counted by hand; known/CASE.lackey has its lines
# of accesses to the arena (ten digits and more from 0x10000000000 on), known/CASE.json the case's answer.
out=/run/krepro/out/$KREPRO_WORKLOAD/known
mkdir -p "$out" || exit 1
lines=$(mktemp) || exit 1
for case in forward stride ping-pong dwell matmul straddle-load push-straddle gather; do
	lackey -o "$lines" /dev/null pageknown "$case" >"$out/$case.json" || {
		echo "lackey-cases: $case ended with $?" >&2
		exit 1
	}
	grep -aE '^ [LSM] 100000[0-9a-f]{5},' "$lines" >"$out/$case.lackey"
done
rm "$lines"

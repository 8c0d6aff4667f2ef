#!/bin/sh
# SPDX-License-Identifier: MIT
# known-cases: trace every case of pageknown; its answer, the trace and the counts lie in known/CASE.*.
# No restartable sequences: after a preemption the kernel touches theirs, and no case states that.
out=/run/krepro/out/$KREPRO_WORKLOAD/known
export GLIBC_TUNABLES=glibc.pthread.rseq=0
mkdir -p "$out" || exit 1
# With little memory the kernel switches huge pages off.
echo madvise >/sys/kernel/mm/transparent_hugepage/enabled || exit 1
for case in $(pageknown list); do
	pagetrace -o "$out/$case.trace" -s "$out/$case.stats" pageknown "$case" >"$out/$case.json" || {
		echo "known-cases: $case ended with $?" >&2
		exit 1
	}
done

#!/bin/sh
# SPDX-License-Identifier: MIT
# known-cases [CASE...]: trace these cases of pageknown; its answer, the trace and the counts lie in known/CASE.*. Without
# one: all of them, and a program of Debian's, of which hand.py has the answer.
# No restartable sequences: after a preemption the kernel touches theirs, and no case states that.
out=/run/krepro/out/$KREPRO_WORKLOAD/known
export GLIBC_TUNABLES=glibc.pthread.rseq=0
mkdir -p "$out" || exit 1
maps=$(mktemp -d) || exit 1 # of a command whose mappings are asked for, instructions can be looked at to its end
# With little memory the kernel switches huge pages off.
echo madvise >/sys/kernel/mm/transparent_hugepage/enabled || exit 1
for case in ${*:-$(pageknown list)}; do
	pagetrace -o "$out/$case.trace" -s "$out/$case.stats" -m "$maps/$case" pageknown "$case" >"$out/$case.json" || {
		echo "known-cases: $case ended with $?" >&2
		exit 1
	}
done
[ $# -eq 0 ] || exit 0
pagetrace -o "$out/debian-dd.trace" -s "$out/debian-dd.stats" \
	/bin/busybox dd if=/dev/zero of=/dev/null bs=1M count=4 2>"$out/debian-dd.said" || {
	cat "$out/debian-dd.said" >&2
	exit 1
}

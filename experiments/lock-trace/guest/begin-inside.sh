#!/bin/sh
# SPDX-License-Identifier: MIT
# begin-inside KIND THREADS: a lock is held, and THREADS - 1 wait for it, when the trace begins; and, unless it is a spin
# lock (the end of a trace waits for CPUs that spin), another time when it ends.
# Counts: begin/known.tsv before the trace; known.begin.tsv and known.tsv, release and hold, in it; end/known.tsv after.
cd "/run/krepro/out/$KREPRO_WORKLOAD" || exit 125
mkdir -p begin end
begin="lockload release -o . && mv known.tsv known.begin.tsv && mv lap.tsv lap.begin.tsv"
end="lockload hold --kind $1 --threads $2 --ops 10 -o . >/dev/null"
lockload hold --no-lap --kind "$1" --threads "$2" --ops 10 -o begin >/dev/null || exit
if [ "$1" = spin ]; then
	exec locktrace -m "$KREPRO_TRACE" -o . sh -c "$begin"
fi
locktrace -m "$KREPRO_TRACE" -o . sh -c "$begin && $end" || exit
lockload release --no-lap -o end >/dev/null

#!/bin/sh
# begin-inside KIND THREADS: a lock is held, and THREADS - 1 wait for it, when the trace begins and when it ends.
# Counts: begin/known.tsv before the trace; known.begin.tsv and known.tsv, release and hold, in it; end/known.tsv after.
cd "/run/krepro/out/$KREPRO_WORKLOAD" || exit 3
mkdir -p begin end
lockload hold --no-lap --kind "$1" --threads "$2" --ops 10 -o begin >/dev/null || exit
locktrace -m "$KREPRO_TRACE" -o . sh -c "
	lockload release -o . >/dev/null &&
	mv known.tsv known.begin.tsv && mv lap.tsv lap.begin.tsv &&
	lockload hold --kind $1 --threads $2 --ops 10 -o . >/dev/null" || exit
lockload release --no-lap -o end

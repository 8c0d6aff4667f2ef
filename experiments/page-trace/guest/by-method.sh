#!/bin/sh
# SPDX-License-Identifier: MIT
# by-method COMMAND...: run a command in the way that KREPRO_METHOD names; what that yields lies beside its output.
# plain: only timed; trace: by pagetrace with a window of KREPRO_WINDOW pages, and marked for the oracle; lackey; damon.
out=/run/krepro/out/$KREPRO_WORKLOAD
case $KREPRO_METHOD in
plain) exec timed "$out/plain.json" "$@" ;;
trace) exec pagetrace -c -w "$KREPRO_WINDOW" -o "$out/trace" -s "$out/trace.json" -- roi-exec "$@" ;;
lackey) exec lackey "$out/lackey.json" "$@" ;;
damon) exec damonrec -s 1000 -a 20000 -o "$out/damon.trace" "$out/damon.json" "$@" ;;
esac
echo "by-method: KREPRO_METHOD is '$KREPRO_METHOD', not plain, trace, lackey or damon" >&2
exit 2

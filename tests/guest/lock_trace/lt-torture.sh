#!/bin/sh
# SPDX-License-Identifier: MIT
# lt-torture SECONDS: files, pipes and forks for so long, untraced and traced by each arm in turn, beside whatever
# locktorture does; a trace that ends by a signal, and one whose reader goes away. Leaves a folder per trace.
end=$(($(date +%s) + $1))
turn=0
while [ "$(date +%s)" -lt $end ]; do
	for arm in off all per-lock paper tracepoint validate; do
		mkdir "$turn-$arm" || exit 3
		locktrace -m $arm -o "$turn-$arm" sh -c "
			filestorm -d one -n 100 >/dev/null & pingpong -t pipe -n 100 >/dev/null &
			forkstorm -n 20 >/dev/null & wait" || exit 3
		# What is kept is looked at elsewhere; memory is short.
		rm -f "$turn-$arm/events.bin"
	done
	locktrace -m per-lock -o . sleep 10 &
	sleep 1
	kill $! && wait $!
	locktrace -m all -o . sleep 10 &
	sleep 1
	kill -9 $! && wait $!
	rm -f events.bin
	turn=$((turn + 1))
done
echo $turn >turns
dmesg >dmesg.end
cat /proc/lockdep_stats >lockdep_stats 2>/dev/null
exit 0

#!/bin/sh
# SPDX-License-Identifier: MIT
# lt-hotplug N: N times the second CPU goes and comes back, while programs use locks on whatever CPUs there are.
cpu=/sys/devices/system/cpu/cpu1/online
filestorm -d one -n 2000 >/dev/null &
forkstorm -n 100 >/dev/null &
for _ in $(seq "$1"); do
	echo 0 >$cpu || exit 1
	[ "$(cat /sys/devices/system/cpu/online)" = 0 ] || exit 1
	echo 1 >$cpu || exit 1
done
wait

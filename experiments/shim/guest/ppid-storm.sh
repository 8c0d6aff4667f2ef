#!/bin/sh
# SPDX-License-Identifier: MIT
# ppid-storm TURNS: load, switch and unload both modules while CPU 1 switches threads all the time, goes offline and
# comes back, and the map is in use. What the kernel thinks of it is in its log. Says what was done, as JSON.
turns=${1:-10}
dir=/krepro/modules
loads=0 busy=0 toggles=0 wrong=0 offlines=0
echo "storm begins" >/dev/kmsg
shimload switch --threads 4 --seconds 3600 >/dev/null &
load=$!
shimload switch --how pipe --cpu 0 --seconds 3600 >/dev/null &
other=$!
sleep 1 # both are pinned then
(
	while :; do
		echo 0 >/sys/devices/system/cpu/cpu1/online && echo off
		sleep 0.05
		echo 1 >/sys/devices/system/cpu/cpu1/online
		sleep 0.05
	done
) >/run/storm.offlines 2>/dev/null &
hotplug=$!
rmmod ppid_callback ppid_tracepoint
turn=0
while [ $turn -lt "$turns" ]; do
	turn=$((turn + 1))
	for module in ppid_callback ppid_tracepoint; do
		insmod $dir/$module.ko active=1 && loads=$((loads + 1))
		# The device is taken: the second module cannot be switched on, and says so.
		other_module=ppid_tracepoint
		[ $module = ppid_tracepoint ] && other_module=ppid_callback
		insmod $dir/$other_module.ko active=1 2>/dev/null && wrong=$((wrong + 1))
		shim run --cpu 1 --seconds 60 >/dev/null &
		reader=$!
		while ! grep -q ppid_map "/proc/$reader/maps"; do sleep 0.01; done
		rmmod $module 2>/dev/null || busy=$((busy + 1))
		# Off and on again under the reader's map.
		for value in 0 1 0 1; do
			echo $value >/sys/module/$module/parameters/active && toggles=$((toggles + 1))
		done
		kill $reader
		wait $reader
		rmmod $module || wrong=$((wrong + 1))
	done
done
kill $hotplug $load $other
wait
offlines=$(wc -l </run/storm.offlines)
echo 1 >/sys/devices/system/cpu/cpu1/online 2>/dev/null
insmod $dir/ppid_callback.ko
insmod $dir/ppid_tracepoint.ko
echo "storm ends" >/dev/kmsg
echo "{\"turns\": $turn, \"loads\": $loads, \"busy\": $busy, \"toggles\": $toggles, \"wrong\": $wrong, \"offlines\": $offlines}"

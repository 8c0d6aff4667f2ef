#!/bin/sh
# SPDX-License-Identifier: MIT
# on-cpu1 NAME: one workload of the experiment. What it looks at runs on CPU 1, the observer and all else on CPU 0.
# Files go to the workload's folder; the observer's period is KREPRO_PERIOD.
dir=/run/krepro/out/$KREPRO_WORKLOAD
period=${KREPRO_PERIOD:-fast}
# A fifth of a window, which no jitter of clocks makes up for.
delay=2000
[ "$period" = 100us ] && delay=20000
taskset -p 1 $$ >/dev/null
# An observer in front of all else stays there for its whole second.
echo -1 >/proc/sys/kernel/sched_rt_runtime_us

# The observer, $1 for its files, the rest are its options.
observe() {
	name=$1
	shift
	shim run --seed "$KREPRO_SEED" --out "$dir/$name" "$@"
}

# Begin and end of an observer's run, out of its JSON.
interval() {
	sed -n 's/.*"clock_begin": {"tsc": \([0-9]*\).*"clock_end": {"tsc": \([0-9]*\).*/\1,\2/p' "$1"
}

case $1 in
rights)
	ppidrights 1 "ppid_$KREPRO_PPID" >"$dir/rights.json"
	;;
check)
	# nproc counts those that this shell may run on.
	cpus=$(grep -c ^processor /proc/cpuinfo)
	shimload check --cpu $((cpus - 1)) --seconds 1 --out "$dir/load"
	;;
switches)
	shimtruth begin 1 16384 || exit 1
	shimload switch --every-us 31 --seconds 2.6 --out "$dir/load" &
	sleep 0.3
	# The ring holds them all: who empties it waits until the observer ends.
	observe observer --seconds 2 --period "$period" --switches "$dir/observer.switches.bin" --ring 262144 \
		--drain 10000 --host 20 --priority 1 || exit 1
	wait
	shimtruth end 1 "$dir/truth"
	;;
trust)
	# The trust test needs no target: where CPU 1 is possible but not there, the observer reads an empty line. Newer kernels
	# have no room for a CPU that the firmware does not tell of.
	[ "$(cat /sys/devices/system/cpu/possible)" = 0 ] && exit 0
	if [ -d /sys/devices/system/cpu/cpu1 ]; then
		shimload known --seconds 3 --out "$dir/load" &
		sleep 0.2
	fi
	observe clean --seconds 1 --period "$period" --event instructions \
		--samples "$dir/clean.samples.bin" --limit 20000 || exit 1
	observe injected --seconds 1 --period "$period" --min-window 10us --inject "50,$delay" \
		--samples "$dir/injected.samples.bin" --limit 100000 --host 20 || exit 1
	wait
	;;
exact)
	# Threads and idle time in turn, on CPU 0 as well as the program that asks: machines of one CPU have no other.
	(
		shimload pattern --cpu 0 --busy-us 500 --idle-us 700 --seconds 0.5
		shimload switch --cpu 0 --how pipe --every-us 31 --seconds 0.4
	) >/dev/null &
	ppidexact "ppid_$KREPRO_PPID" 1 >"$dir/exact.json" || exit 1
	wait
	;;
hand)
	# On CPU 0, the only one. Debian's dd, by its path: busybox takes itself for dd.
	ppidhand sh -c '/bin/dd if=/dev/zero bs=1 count=500 status=none | /bin/dd of=/dev/null bs=1 status=none' \
		>"$dir/hand.json" || exit 1
	;;
disturb)
	# The timer sampler on the only CPU, where the clock counts instructions.
	shimload known --cpu 0 --seconds 3 --out "$dir/load" &
	sleep 1
	timersample 0 1 >"$dir/timer.json" || exit 1
	wait
	;;
counters)
	# On CPU 0, as it is: machines of one CPU have no other, and those with an exact PMU are such.
	ppidcount 0 >"$dir/counters.json"
	;;
timer)
	shimload known --seconds 4 --out "$dir/load" &
	sleep 0.2
	observe fast --seconds 1 --period "$period" || exit 1
	timersample 1 1 >"$dir/timer.json" || exit 1
	timersample 1 1 >"$dir/both.timer.json" &
	observe both --seconds 1 --period "$period" || exit 1
	wait
	;;
cost)
	shimload known --seconds 4 --out "$dir/load" &
	sleep 0.2
	echo begin,end >"$dir/on.csv"
	echo begin,end >"$dir/spin.csv"
	for turn in 1 2 3 4 5 6; do
		observe "on$turn" --seconds 0.2 --period "$period" || exit 1
		interval "$dir/on$turn.shim.json" >>"$dir/on.csv"
		# Busy as well, but looking at nothing: what a neighbour costs as such.
		shimload known --cpu 0 --seconds 0.2 >"$dir/spin$turn.json" || exit 1
		interval "$dir/spin$turn.json" >>"$dir/spin.csv"
		sleep 0.2
	done
	rm -f "$dir"/on[0-9].periods.csv "$dir"/on[0-9].ids.csv "$dir"/spin[0-9].json
	wait
	;;
known)
	shim list json >"$dir/list.json" || exit 1
	shimload known --seconds 2 --out "$dir/load" &
	sleep 0.3
	observe known --seconds 1 --period 100us --event instructions --samples "$dir/known.samples.bin" || exit 1
	wait
	# Counted on CPU 1, executed on CPU 0: must be refused.
	observe wrong --seconds 0.1 --period 100us --event instructions --known-cpu 0
	;;
gaps)
	shimtruth begin 1 16384 || exit 1
	shimload gaps --seconds 2.6 --out "$dir/load" &
	sleep 0.3
	observe observer --seconds 2 --period "$period" --switches "$dir/observer.switches.bin" --ring 262144 \
		--drain 10000 --host 20 --priority 1 || exit 1
	wait
	shimtruth end 1 "$dir/truth"
	;;
hello)
	# arm64 keeps its counters from user space until it is asked.
	[ -e /proc/sys/kernel/perf_user_access ] && echo 1 >/proc/sys/kernel/perf_user_access
	shimhello branch-instructions branch-misses bus-cycles instructions cpu-cycles ref-cycles >"$dir/hello.json" || exit 1
	ppidtable 2 >"$dir/table.txt"
	;;
pattern)
	shimtruth begin 1 4096 || exit 1
	shimload pattern --seconds 2 --out "$dir/load" &
	sleep 0.3
	observe observer --seconds 1 --period "$period" --switches "$dir/observer.switches.bin" \
		--drain 10000 --host 20 --priority 1 || exit 1
	wait
	shimtruth end 1 "$dir/truth"
	;;
phases)
	shimtruth begin 1 4096 || exit 1
	shimload phases --seconds 2 --out "$dir/load" &
	sleep 0.3
	observe observer --seconds 1 --period 100us --event instructions --samples "$dir/observer.samples.bin" \
		--switches "$dir/observer.switches.bin" || exit 1
	wait
	shimtruth end 1 "$dir/truth"
	;;
*)
	echo "usage: on-cpu1 WORKLOAD" >&2
	exit 2
	;;
esac

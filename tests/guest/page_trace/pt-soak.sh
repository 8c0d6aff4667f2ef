#!/bin/sh
# SPDX-License-Identifier: MIT
# pt-soak CYCLES KILLS: start and stop traces CYCLES times, kill launchers and traced processes KILLS times each at
# random moments, a hundred execs; MemFree and the pages of slab before and after, in soak.json.
cycles=$1 kills=$2
out=/run/krepro/out/$KREPRO_WORKLOAD
export GLIBC_TUNABLES=glibc.pthread.rseq=0
cd "$out" || exit 1

# Caches are emptied first; what others free late is given time.
memory() {
	sync
	echo 3 >/proc/sys/vm/drop_caches
	sleep 2
	echo 3 >/proc/sys/vm/drop_caches
	awk '/^MemFree/ {f=$2} /^SUnreclaim/ {s=$2} /^PageTables/ {p=$2} /^KernelStack/ {k=$2} /^VmallocUsed/ {v=$2}
	     END {printf "{\"free\": %d, \"slab\": %d, \"tables\": %d, \"stacks\": %d, \"vmalloc\": %d}", f, s, p, k, v}' /proc/meminfo
}
random() { # below $1
	echo $(($(od -An -N2 -tu2 /dev/urandom) * $1 / 65536))
}
cycle() {
	kind=$1 n=$2
	while [ "$n" -gt 0 ]; do
		ptstorm "$kind" 60000 >/dev/null 2>>storms &
		storm=$!
		usleep 20000
		ptcycle 50 3000 $storm follow >>cycles || echo "ptcycle $kind: $?" >>wrong
		kill -9 $storm
		wait $storm 2>/dev/null
		n=$((n - 50))
	done
}
killing() {
	n=0
	while [ $n -lt "$1" ]; do
		# The launcher: the traced process goes on and comes to its end.
		ptstorm calm 400 >calm.json &
		storm=$!
		pagetrace -p $storm -o /dev/null 2>>launchers &
		launcher=$!
		usleep "$(random 300000)"
		kill -9 $launcher
		wait $launcher 2>/dev/null
		wait $storm || echo "traced process after its launcher's death: $?" >>wrong
		# The traced process: the launcher ends with its status.
		pagetrace -f -o /dev/null ptstorm clones 60000 >/dev/null 2>>launchers &
		launcher=$!
		usleep "$(random 300000)"
		storm=$(pidof ptstorm)
		[ -n "$storm" ] && kill -9 $storm
		[ -n "$storm" ] || kill $launcher
		wait $launcher
		status=$?
		[ $status -eq 137 ] || [ $status -eq 143 ] || [ $status -eq 125 ] || echo "launcher: $status" >>wrong
		# Both at once.
		pagetrace -f -o /dev/null ptstorm forks 60000 >/dev/null 2>>launchers &
		launcher=$!
		usleep "$(random 200000)"
		kill -9 $launcher $(pidof ptstorm) 2>/dev/null
		wait $launcher 2>/dev/null
		n=$((n + 1))
	done
	usleep 100000
	pidof ptstorm pagetrace >>left
}

touch wrong left
# Once, so that what is allocated once is there.
cycle clones 50
killing 2
before=$(memory)
cycle calm $((cycles / 2))
cycle clones $((cycles / 4))
cycle forks $((cycles / 4))
killing "$kills"
pagetrace -o /dev/null ptstorm execs 100 >chain || echo "execs: $?" >>wrong
after=$(memory)
echo "{\"before\": $before, \"after\": $after}" >soak.json
if [ -e /sys/kernel/debug/kmemleak ]; then
	# The second scan reports what the first one found; young objects are given time.
	echo scan >/sys/kernel/debug/kmemleak
	sleep 8
	echo scan >/sys/kernel/debug/kmemleak
	cat /sys/kernel/debug/kmemleak >kmemleak
	grep debug_locks /proc/lockdep_stats >lockdep
fi
dmesg >dmesg.end
exit 0

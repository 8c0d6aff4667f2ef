#!/bin/sh
# SPDX-License-Identifier: MIT
# pt-suite MS: what tests of page traces want to know of one guest. Answers, traces and counts lie beside the output.
ms=$1
out=/run/krepro/out/$KREPRO_WORKLOAD
export GLIBC_TUNABLES=glibc.pthread.rseq=0
cd "$out" || exit 1
mkdir -p known storm untraced traced chain blind

# An address above 47 bits is had only where there are five levels.
grep -qw la57 /proc/cpuinfo && five=5 || five=4
echo "levels $five cpus $(nproc)" >shape
grep -o "pti=on" /proc/cmdline >>shape
echo madvise >/sys/kernel/mm/transparent_hugepage/enabled

for name in $(pageknown list); do
	pagetrace -o "known/$name.trace" -s "known/$name.stats" pageknown "$name" >"known/$name.json" 2>>known/complaints
done
pagetrace -o own.trace -s own.stats pagethreads --threads 4 >own.json
pagetrace -o same.trace -s same.stats pagethreads --threads 3 --shared >same.json
page-swap && pagetrace -o writes.trace -s writes.stats pagewrites >writes.json

# Processes that are hard to trace, from their start and caught in the middle.
for kind in calm clones forks vforks leader changes huge futex signals; do
	pagetrace -o /dev/null -s "storm/$kind.stats" ptstorm $kind "$ms" >"storm/$kind.json" 2>"storm/$kind.err"
	echo $? >"storm/$kind.exit"
	pagetrace -f -o /dev/null -s "storm/$kind-f.stats" ptstorm $kind "$ms" >"storm/$kind-f.json" 2>"storm/$kind-f.err"
	echo $? >"storm/$kind-f.exit"
done
for kind in calm clones forks changes futex signals; do
	lasts=$((ms * 4))
	while
		ptstorm $kind $lasts >"storm/$kind-p.json" 2>"storm/$kind-p.err" &
		storm=$!
		usleep 50000
		ptcycle 10 3000 $storm follow >"storm/$kind-cycle.json" 2>>"storm/$kind-p.err"
		pagetrace -p $storm -o /dev/null -s "storm/$kind-p.stats" 2>>"storm/$kind-p.err" &
		launcher=$!
		wait $storm
		echo $? >"storm/$kind-p.exit"
		wait $launcher
		# A busy host is slow: the storm was over before it was caught.
		grep -q "no such process" "storm/$kind-p.err" && [ $lasts -lt $((ms * 200)) ]
	do
		lasts=$((lasts * 4))
	done
done
pagetrace -o chain/trace -s chain/stats ptstorm execs 100 >chain/json

# Each known sequence again, beside the trace of a program that runs all the time.
pagetrace -o /dev/null -s beside.stats sh -c 'while [ ! -e known.done ]; do :; done' &
busy=$!
mkdir -p beside
for name in $(pageknown list); do
	pagetrace -o "beside/$name.trace" -s "beside/$name.stats" pageknown "$name" >"beside/$name.json" 2>>beside/complaints
done
: >known.done
wait $busy

for kind in rwx ldt; do pagetrace -o /dev/null -s "blind/$kind" ptblind $kind; done
ptsetid >setid
ptage >age

# A launcher that is killed ends its trace and nothing else.
lasts=$((ms * 4))
while
	ptstorm calm $lasts >killed.json &
	storm=$!
	: >killed.launchers
	for i in 1 2 3 4 5; do
		pagetrace -p $storm -o /dev/null 2>killed.err &
		launcher=$!
		usleep 60000
		kill -9 $launcher
		wait $launcher 2>/dev/null
		echo $? >>killed.launchers
	done
	wait $storm
	echo $? >killed.exit
	grep -q "no such process" killed.err && [ $lasts -lt $((ms * 800)) ]  # a busy host, as above
do
	lasts=$((lasts * 4))
done

ptapi >api
for kind in lost abuse; do ptring $kind >"ring-$kind.json" 2>&1; done

# The same output and end, traced or not.
fate() {
	name=$1
	shift
	"$@" >"untraced/$name" 2>/dev/null
	echo "status $?" >>"untraced/$name"
	pagetrace -f -o /dev/null -s "traced/$name.stats" "$@" >"traced/$name" 2>/dev/null
	echo "status $?" >>"traced/$name"
}
for kind in exit map access null write across push-across bus bus-across fpe div-across ill int3 trap abort kill; do
	fate "$kind" ptfate $kind
	fate "$kind-caught" ptfate $kind caught
done 2>/dev/null
fate step ptstep
fate block ptstep BLOCK
fate keys ptkeys
fate md5sum md5sum /krepro/bin/pt-suite
fate shell sh -c 'for i in 1 2 3; do echo $i | sed s/1/one/; done; (exit 4); echo $?; kill -TERM $$'
fate absent no-such-program
dmesg >dmesg.end
exit 0

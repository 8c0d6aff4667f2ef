#!/bin/sh
# SPDX-License-Identifier: MIT
# peers: runs peerload beside one profiler, KREPRO_PROFILER, and leaves what that tells in the workload's folder.
#
#   none, tick, entry, nmi   nothing more than what the collector does
#   jitter                   samples at random moments in /proc/profile
#   times                    /proc/irq_handler_time
#   account                  /proc/stat: CONFIG_IRQ_TIME_ACCOUNTING
#   trace                    the events irq_handler_entry and irq_handler_exit of the edu device
#   perf                     perf's event cpu-clock
set -eu
out=/run/krepro/out/$KREPRO_WORKLOAD
tracing=/run/krepro/tracing
set -- /sys/bus/pci/drivers/krepro-edu/*:*

case $KREPRO_PROFILER in
none | tick | entry | nmi)
	peerload "$1"
	;;
jitter)
	echo 1 >/proc/sys/kernel/profile_jitter
	peerload "$1"
	echo 0 >/proc/sys/kernel/profile_jitter
	;;
times)
	echo 1 >/proc/sys/kernel/irq_handler_time
	cat /proc/irq_handler_time >"$out/times.before"
	peerload "$1"
	cat /proc/irq_handler_time >"$out/times.after"
	echo 0 >/proc/sys/kernel/irq_handler_time
	;;
account)
	cat /proc/stat >"$out/stat.before"
	peerload "$1"
	cat /proc/stat >"$out/stat.after"
	;;
trace)
	mkdir -p $tracing
	mount -t tracefs tracefs $tracing
	irq=$(sed -n 's/^ *\([0-9]*\):.* krepro-edu$/\1/p' /proc/interrupts)
	echo 1024 >$tracing/buffer_size_kb
	for event in irq_handler_entry irq_handler_exit; do
		echo "irq == $irq" >$tracing/events/irq/$event/filter
		echo 1 >$tracing/events/irq/$event/enable
	done
	peerload "$1"
	echo 0 >$tracing/events/irq/enable
	cat $tracing/trace >"$out/trace"
	;;
perf)
	cpuclock "$out/cpuclock" peerload "$1"
	;;
*)
	echo "peers: KREPRO_PROFILER is $KREPRO_PROFILER, none that is known" >&2
	exit 2
	;;
esac

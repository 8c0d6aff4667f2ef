#!/bin/sh
# SPDX-License-Identifier: MIT
# traced [LOCKTRACE OPTION...] -- COMMAND...: run a command as the arm says, KREPRO_TRACE, in the workload's folder.
cd "/run/krepro/out/$KREPRO_WORKLOAD" || exit 125
case $KREPRO_TRACE in
contention | kprobes | perf) ;;
*) exec locktrace -m "$KREPRO_TRACE" -o . "$@" ;;
esac
tracing=/sys/kernel/tracing
[ -e $tracing/kprobe_events ] || mount -t tracefs none $tracing || exit 125

if [ "$KREPRO_TRACE" = contention ]; then
	# Counted by the kernel, by lock: no ring that loses any.
	at=$tracing/events/lock/contention_begin
	echo 'hist:keys=lock_addr.hex,flags:size=4096' >$at/trigger || exit 125
	locktrace -m off -o . "$@"
	status=$?
	cat $at/hist >contention_begin && echo '!hist:keys=lock_addr.hex,flags' >$at/trigger || exit 125
	exit $status
fi

if [ "$KREPRO_TRACE" = perf ]; then
	exec lockrec -o . locktrace -m off -o . "$@"
fi

# The kernel's own instrumentation at run time. An unlock that gcc inlined has no function to probe.
for lock in _raw_spin_lock _raw_spin_lock_irqsave _raw_spin_lock_irq _raw_spin_lock_bh; do
	echo "p:krepro/attempt$lock $lock lock=%di"
	echo "r:krepro/acquired$lock $lock"
done >$tracing/kprobe_events || exit 125
for unlock in _raw_spin_unlock_irqrestore _raw_spin_unlock_bh; do
	echo "p:krepro/release$unlock $unlock lock=%di"
done >>$tracing/kprobe_events || exit 125
echo 1 >$tracing/events/krepro/enable || exit 125
locktrace -m off -o . "$@"
status=$?
cat $tracing/kprobe_profile >kprobe_profile
echo 0 >$tracing/events/krepro/enable && echo >$tracing/kprobe_events || exit 125
exit $status

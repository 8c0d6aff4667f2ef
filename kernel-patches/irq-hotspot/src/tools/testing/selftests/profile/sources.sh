#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# What the sources of samples for /proc/profile promise: off, they count nothing;
# one at a time is on. Boot with profile=2.

sys=/proc/sys/kernel
tests="off_at_boot refuses_what_is_wrong refuses_users off_counts_nothing \
	counts_handlers one_at_a_time off_again_counts_nothing"
ksft_skip=4
sources=
for name in irq_hotspot nmi_profile profile_jitter; do
	[ -e $sys/$name ] && sources="$sources $name"
done

all_off() {
	for source in $sources; do
		[ "$(cat $sys/$source)" = 0 ] || return 1
	done
}

# A write that fails and changes nothing.
refused() {
	before=$(cat $sys/$1)
	! echo "$2" 2> /dev/null > $sys/$1 && [ "$(cat $sys/$1)" = "$before" ]
}

counts() {
	cat $sys/irq_hotspot_stats
	[ ! -e $sys/nmi_profile_stats ] || cat $sys/nmi_profile_stats
}

# All at once: whoever reads a sysctl byte by byte gets the first one.
handlers() {
	cut -f 1 $sys/irq_hotspot_stats
}

# Calls of the handlers of numbered interrupts, of all CPUs.
interrupts() {
	awk '$1 ~ /^[0-9]+:$/ { for (i = 2; $i ~ /^[0-9]+$/; i++) n += $i }
	     END { print n + 0 }' /proc/interrupts
}

off_at_boot() {
	all_off
}

refuses_what_is_wrong() {
	for source in $sources; do
		for value in -1 3 x; do
			refused $source $value || return 1
		done
	done
	! echo 0 2> /dev/null > $sys/irq_hotspot_stats
}

refuses_users() {
	if setpriv --reuid=65534 true 2> /dev/null; then
		as_user="setpriv --reuid=65534"
	elif setuidgid 65534 true 2> /dev/null; then
		as_user="setuidgid 65534"
	else
		return $ksft_skip
	fi
	for source in $sources; do
		$as_user sh -c "echo 1 > $sys/$source" 2> /dev/null && return 1
		[ "$($as_user cat $sys/$source)" = 0 ] || return 1
	done
}

off_counts_nothing() {
	before=$(counts)
	sleep 1
	[ "$before" = "$(counts)" ]
}

# Each call of a handler is counted once: no fewer than /proc/interrupts says.
counts_handlers() {
	echo 2 > $sys/irq_hotspot || return 1
	before=$(handlers)
	called=$(interrupts)
	sleep 2
	called=$(($(interrupts) - called))
	counted=$(($(handlers) - before))
	echo 0 > $sys/irq_hotspot
	echo "# $called interrupts, $counted handlers"
	[ $called -gt 0 ] || return $ksft_skip
	[ $counted -ge $called ]
}

one_at_a_time() {
	for source in $sources; do
		echo 1 > $sys/$source || return 1
		for other in $sources; do
			[ $other = $source ] || refused $other 1 || return 1
		done
		echo 0 > $sys/$source || return 1
	done
}

off_again_counts_nothing() {
	all_off && off_counts_nothing
}

echo "TAP version 13"
if [ ! -e $sys/irq_hotspot ] || [ "$(id -u)" != 0 ] || [ ! -e /proc/profile ]; then
	echo "1..0 # SKIP needs root, CONFIG_KREPRO_IRQ_HOTSPOT and profile=2"
	exit $ksft_skip
fi
echo "1..$(echo $tests | wc -w)"
number=0
failed=0
for name in $tests; do
	number=$((number + 1))
	$name
	case $? in
	0) echo "ok $number $name" ;;
	$ksft_skip) echo "ok $number $name # SKIP" ;;
	*) echo "not ok $number $name"; failed=1 ;;
	esac
done
exit $failed

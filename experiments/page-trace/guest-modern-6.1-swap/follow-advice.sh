#!/bin/sh
# SPDX-License-Identifier: MIT
# follow-advice WHAT ARGUMENT...: run a command on a machine with slow swap space, as KREPRO_ADVICE says.
#
#   follow-advice aside MS COMMAND...         put aside after MS of CPU time, all its memory paged out, then resumed;
#                                             none, everything (fetched ahead, needs no trace), or order: it is traced
#                                             first, and its pages are fetched ahead in the order of the trace
#   follow-advice short MIB WITHOUT WITH COMMAND...
#                                             with MIB of memory free; the word WITHOUT is added to the command, or
#                                             WITH if advice is to be followed; traced: WITHOUT, and all memory is free
out=/run/krepro/out/$KREPRO_WORKLOAD
slow-swap || exit 125
what=$1 much=$2
shift 2
case $what-$KREPRO_ADVICE in
aside-none) exec in-place advised -s "$out/advised.json" -t "$much" "$@" ;;
aside-everything) exec in-place advised -s "$out/advised.json" -t "$much" -e "$@" ;;
aside-order)
	# It reads its input twice.
	[ -f /proc/self/fd/0 ] && exec 3</proc/self/fd/0 || exec 3</dev/null
	in-place advised -s /run/traced.json -t "$much" -o "$out/plan" "$@" <&3 >/dev/null || exit
	exec 3<&-
	exec in-place advised -s "$out/advised.json" -t "$much" -a "$out/plan" "$@"
	;;
short-traced)
	without=$1
	shift 2
	exec in-place pagetrace -c -z -o "$out/trace" -s "$out/trace.json" -m "$out/maps" -- "$@" "$without"
	;;
short-none)
	without=$1
	shift 2
	exec in-place advised -s "$out/advised.json" -l "$much" "$@" "$without"
	;;
short-followed)
	without=$1 with=$2
	shift 2
	exec in-place advised -s "$out/advised.json" -l "$much" "$@" "$with"
	;;
esac
echo "follow-advice: $what, KREPRO_ADVICE '$KREPRO_ADVICE': no such thing" >&2
exit 2

#!/bin/sh
# SPDX-License-Identifier: MIT
# collect-ppid begin|end DIR: switch on what KREPRO_PPID names: a module (callback, tracepoint, original), or bpf; off: nothing.
# KREPRO_EVENTS: what it counts besides, as perf numbers hardware events (1,0: instructions and cycles).
[ "$KREPRO_PPID" = off ] && exit 0
[ "$1" = begin ] && [ -n "$KREPRO_EVENTS" ] && echo "$KREPRO_EVENTS" >"/sys/module/ppid_$KREPRO_PPID/parameters/events"
if [ "$KREPRO_PPID" = bpf ]; then
	case $1 in
	begin) ppidbpf on ;;
	end) ppidbpf off ;;
	*) exit 2 ;;
	esac
	exit
fi
case $1 in
begin) echo 1 >"/sys/module/ppid_$KREPRO_PPID/parameters/active" ;;
end) echo 0 >"/sys/module/ppid_$KREPRO_PPID/parameters/active" ;;
*) exit 2 ;;
esac

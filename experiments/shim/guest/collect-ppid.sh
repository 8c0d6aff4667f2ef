#!/bin/sh
# SPDX-License-Identifier: MIT
# collect-ppid begin|end DIR: switch on the module that KREPRO_PPID names (callback, tracepoint; off: none).
# KREPRO_EVENTS: what it counts besides, as perf numbers hardware events (1,0: instructions and cycles).
[ "$KREPRO_PPID" = off ] && exit 0
[ "$1" = begin ] && [ -n "$KREPRO_EVENTS" ] && echo "$KREPRO_EVENTS" >"/sys/module/ppid_$KREPRO_PPID/parameters/events"
case $1 in
begin) echo 1 >"/sys/module/ppid_$KREPRO_PPID/parameters/active" ;;
end) echo 0 >"/sys/module/ppid_$KREPRO_PPID/parameters/active" ;;
*) exit 2 ;;
esac

#!/bin/sh
# SPDX-License-Identifier: MIT
# collect-lockstat begin|end DIR: /proc/lock_stat of the workload alone, where the kernel has it.
[ -e /proc/lock_stat ] || exit 0
case $1 in
begin) echo 0 >/proc/lock_stat && echo 1 >/proc/sys/kernel/lock_stat ;;
end) echo 0 >/proc/sys/kernel/lock_stat && cat /proc/lock_stat >"$2/lock_stat.txt" ;;
*) exit 2 ;;
esac

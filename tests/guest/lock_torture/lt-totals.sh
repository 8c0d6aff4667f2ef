#!/bin/sh
# SPDX-License-Identifier: MIT
# lt-totals TYPE SECONDS: locktorture of that type for so long. Leaves its own totals, and where its functions were.
dmesg -c >/dev/null
insmod /krepro/modules/lttorture.ko run=1 torture_type="$1" nwriters_stress=2 nreaders_stress=1 stat_interval=0 \
	stutter=0 shuffle_interval=0 verbose=0 || exit 1
grep '\[lttorture\]' /proc/kallsyms >functions
sleep "$2"
rmmod lttorture || exit 1
dmesg -c >totals

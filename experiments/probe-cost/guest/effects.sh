#!/bin/sh
# SPDX-License-Identifier: MIT
# effects [--only PREFIX,...]: hits that are lost, with a known answer; and where costs stop being linear.
cat >/run/effects.script <<'END'
run plain.getppid work=getppid
go
run nested.int3-ftrace work=getppid
probe kprobe-int3 __x64_sys_getppid+5 a=+0(%di):u64
use
probe kprobe-ftrace copy_from_kernel_nofault
use
go
run nested.ftrace-ftrace work=getppid
probe kprobe-ftrace __x64_sys_getppid a=+0(%di):u64
use
probe kprobe-ftrace copy_from_kernel_nofault
use
go
run nested.optimised-ftrace work=getppid
probe kprobe-optimised __x64_sys_getppid+5 a=+0(%di):u64
use
probe kprobe-ftrace copy_from_kernel_nofault
use
go
run nested.int3-int3 work=getppid
probe kprobe-int3 __x64_sys_getppid+5 a=+0(%di):u64
use
probe kprobe-int3 copy_from_kernel_nofault+5
use
go
run nested.none work=getppid
probe kprobe-int3 __x64_sys_getppid+5 a=+0(%di):u64
use
go
run maxactive.enough work=sleepers sleepers=8 rounds=5
probe kretprobe hrtimer_nanosleep maxactive=16
use
go
run maxactive.short work=sleepers sleepers=8 rounds=5
probe kretprobe hrtimer_nanosleep maxactive=3
use
go
run depth.64 work=udeep depth=64 rounds=50
probe uretprobe u_deep
use
go
run depth.100 work=udeep depth=100 rounds=50
probe uretprobe u_deep
use
go
run overrun.none work=getppid rounds=200
probe kprobe-ftrace __x64_sys_getppid
use
go
run overrun.some work=getppid rounds=2000 buffer=16
probe kprobe-ftrace __x64_sys_getppid
use
go
run full.hist work=getppid rounds=400
probe kprobe-ftrace __x64_sys_getppid
use hist=keys=common_timestamp:size=128 record=0
go
run feedback.refresh work=nothing spin=100000 rounds=20 drain=500
probe kprobe-ftrace vfs_read
use
go
END
for spin in 0 100 300 1000 3000 10000 30000; do
	rounds=$((2000000 / (spin * 2 + 1000)))
	printf 'run rate.bare.%s work=getppid rounds=%s batches=3 spin=%s\ngo\n' $spin $rounds $spin
	for p in kprobe-ftrace:__x64_sys_getppid kprobe-int3:__x64_sys_getppid+5 tracepoint:raw_syscalls/sys_enter; do
		printf 'run rate.%s.%s work=getppid rounds=%s batches=3 spin=%s\nprobe %s %s\nuse\ngo\n' \
			"${p%%:*}" $spin $rounds $spin "${p%%:*}" "${p#*:}"
	done
	printf 'run rate.bare-user.%s work=upush rounds=%s batches=3 spin=%s\ngo\n' $spin $rounds $spin
	printf 'run rate.uprobe.%s work=upush rounds=%s batches=3 spin=%s\nprobe uprobe u_push\nuse\ngo\n' $spin $rounds $spin
done >>/run/effects.script
printf 'run period.bare work=nothing spin=100000 rounds=20 batches=3\ngo\n' >>/run/effects.script
for period in 1000000 100000 50000 20000 10000 5000 2000; do
	printf 'run period.%s work=nothing spin=100000 rounds=20 batches=3\nprobe sample %s\nuse\ngo\n' $period $period
done >>/run/effects.script
probecost "$KREPRO_UNIT" "$@" </run/effects.script

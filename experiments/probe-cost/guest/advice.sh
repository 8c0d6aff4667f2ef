#!/bin/sh
# SPDX-License-Identifier: MIT
# advice [--only PREFIX,...]: scripts as one writes them, and as the model advises: the same question, asked cheaper.
cat >/run/advice.script <<'END'
run a01-tracepoint-for-kprobe.before work=service rounds=150 check=1
probe kprobe-int3 __x64_sys_getppid+5
use
go
run a01-tracepoint-for-kprobe.after work=service rounds=150 check=1
probe syscall sys_enter_getppid
use
go
run a02-fentry-for-kprobe.before work=pipe rounds=150 check=1
probe kprobe-int3 vfs_write+5
use bpf=10 calls=pid:1,look/8:1,put/8:1
go
run a02-fentry-for-kprobe.after work=pipe rounds=150 check=1
probe fprobe vfs_write
use bpf=10 calls=pid:1,look/8:1,put/8:1
go
run a03-aggregate-for-record.before work=files rounds=100 check=1
probe kprobe-ftrace vfs_read n=%dx
use stack=1
go
run a03-aggregate-for-record.after work=files rounds=100 check=1
probe kprobe-ftrace vfs_read n=%dx
use hist=keys=n record=0
go
run a04-map-for-print.before work=search rounds=60 check=1
probe syscall sys_enter_access
use bpf=10 calls=pid:1,comm:1 perf=64
go
run a04-map-for-print.after work=search rounds=60 check=1
probe syscall sys_enter_access
use bpf=10 calls=comm:1,look/16:1,put/16:1
go
run a05-filter-first.before work=files rounds=100 check=1
probe kprobe-ftrace do_sys_openat2 p=+0(%si):ustring
use
go
run a05-filter-first.after work=files rounds=100 check=1
probe kprobe-ftrace do_sys_openat2
use bpf=12 calls=ustring/20:1
go
run a06-sample-less.before work=sort rounds=30 check=1
probe sample 30000
use stack=1
go
run a06-sample-less.after work=sort rounds=30 check=1
probe sample 200000
use stack=1
go
run a07-emulated-place.before work=ustep rounds=200 spin=500 check=1
probe uprobe-step u_step
use
go
run a07-emulated-place.after work=upush rounds=200 spin=500 check=1
probe uprobe u_push
use
go
run a08-one-consumer.before work=hot rounds=150 check=1
probe tracepoint task/task_rename
use
use
use
use
go
run a08-one-consumer.after work=hot rounds=150 check=1
probe tracepoint task/task_rename
use
go
run a09-exit-for-kretprobe.before work=service rounds=150 check=1
probe kretprobe __x64_sys_getppid r=%ax
use
go
run a09-exit-for-kretprobe.after work=service rounds=150 check=1
probe syscall-return sys_exit_getppid
use
go
run a10-read-seldom.before work=pipe rounds=1000 check=1 drain=300 readers=2
probe kprobe-ftrace pipe_write n=%dx
use
use
go
run a10-read-seldom.after work=pipe rounds=1000 check=1 drain=2000 readers=1
probe kprobe-ftrace pipe_write n=%dx
use
use
go
END
probecost "$KREPRO_UNIT" "$@" </run/advice.script

#!/bin/sh
# SPDX-License-Identifier: MIT
# validate [--only PREFIX,...]: scripts and workloads that take no part in the fit. Each runs untraced, then counted, then traced.
cat >/run/validate.script <<'END'
run v01-service-mixed work=service rounds=300 check=1
probe kprobe-int3 __x64_sys_getppid+5
use
probe uprobe u_nop a=%di
use filter=a<30
probe kprobe-ftrace vfs_read n=%dx
use hist=keys=n record=0
go
run v02-files-open work=files rounds=300 check=1
probe kprobe-ftrace do_sys_openat2 d=%di f=%dx
use
probe syscall sys_enter_openat
use filter=dfd<0
probe kretprobe do_filp_open r=%ax
use
go
run v03-pipe-consumers work=pipe rounds=300 check=1
probe kprobe-optimised vfs_write+5 n=%dx b=%si
use
use filter=n==1&&common_pid>0
use filter=n>1
go
run v04-faults-aggregated work=faults rounds=60 check=1
probe kprobe-ftrace handle_mm_fault a=%si f=%dx
use hist=keys=f record=0
probe kretprobe handle_mm_fault r=%ax
use hist=keys=r:vals=hitcount
go
run v05-signal-filtered work=signal rounds=200 check=1
probe tracepoint signal/signal_generate
use filter=sig==10
use filter=sig==9
probe tracepoint signal/signal_deliver
use
go
run v06-fork work=fork rounds=15 check=1
probe tracepoint sched/sched_process_fork
use stack=1
probe tracepoint sched/sched_process_exit
use
probe kretprobe kernel_clone r=%ax
use
probe kprobe-ftrace handle_mm_fault a=%si
use
go
run v07-sort-cold work=sort rounds=40 check=1
probe uprobe u_push a=%di
use hist=keys=a
probe kprobe-int3 vfs_write+5 n=%dx
use stack=1
go
run v08-pingpong-switches work=pingpong rounds=200 check=1
probe tracepoint sched/sched_switch
use
probe tracepoint sched/sched_waking
use filter=prio<50
go
run v09-hot-two-consumers work=hot rounds=300 check=1
probe kprobe-optimised __x64_sys_getppid+5 a=%di b=+8(%di):u64
use
use
probe usdt usdt_mark
use
probe tracepoint task/task_rename
use
use stack=1
probe uprobe u_nop a=%di b=%si c=$comm
use filter=a<50
use filter=a>=90
go
run v10-six-providers work=hot rounds=300 check=1
probe kprobe-ftrace __x64_sys_getppid
use
probe kprobe-int3 __x64_sys_prctl+5 a=%di
use
probe kretprobe __x64_sys_prctl r=%ax
use
probe tracepoint task/task_rename
use
probe uretprobe u_nop r=%ax
use
probe syscall sys_enter_getppid
use
go
run v11-mark-aggregated work=umark rounds=300 spin=300 check=1
probe usdt usdt_mark a=%di
use hist=keys=a record=0
use filter=a<10&&a>2
go
run v12-rename-programs work=rename rounds=300 check=1
probe tracepoint task/task_rename
use
use bpf=60 map=1
probe raw-tracepoint task/task_rename
use bpf=200
probe fprobe __set_task_comm
use bpf=20 map=2
go
run v13-syscalls-both-ways work=service rounds=300 check=1
probe syscall sys_enter_write
use
use filter=count==1
probe syscall-return sys_exit_write
use
probe syscall-return sys_exit_getppid
use
go
run v14-cold work=service rounds=40 spin=50000 check=1
probe kprobe-optimised vfs_read+5 n=%dx
use stack=1
probe uprobe-step u_step
use
probe uprobe u_nop
use
go
run v15-sort-sampled work=sort rounds=60 check=1
probe sample 60000
use
go
run v16-pipe-refreshed work=pipe rounds=1500 check=1 drain=700
probe kprobe-ftrace pipe_read n=%dx b=%si
use
probe kprobe-ftrace vfs_write n=%dx
use
go
run v17-itimer-predicates work=itimer rounds=300 check=1
probe tracepoint timer/itimer_state
use filter=which==0&&value_sec>1
probe kprobe-optimised do_setitimer+5 w=%di v=%si
use filter=w==0||w==1
use bpf=30
go
run v18-step-and-return work=ustep rounds=300 spin=100 check=1
probe uprobe-step u_step a=%di
use filter=a<25 stack=1
probe uretprobe u_step r=%ax
use
go
run v19-signal-everything work=signal rounds=150 spin=500 check=1
probe syscall sys_enter_kill
use filter=sig==10
use hist=keys=sig
probe kprobe-int3 do_send_sig_info+5 s=%di
use stack=1
probe tracepoint signal/signal_deliver
use bpf=40 map=1
go
run v20-files-returns work=files rounds=200 check=1
probe kretprobe vfs_read r=%ax
use filter=r==512
use filter=r<0
probe kprobe-ftrace vfs_read n=%dx
use hist=keys=n
probe syscall-return sys_exit_close
use
go
run v21-pingpong-programs work=pingpong rounds=150 spin=200 check=1
probe fprobe pipe_read
use bpf=100 map=1
probe kprobe-ftrace pipe_write c=$comm
use
use bpf=10
probe tracepoint sched/sched_switch
use hist=keys=next_pid record=0
go
run v22-two-marks work=hot rounds=250 spin=2000 check=1
probe uprobe u_nop a=%di b=%si
use filter=a<20
use
use hist=keys=a,b
probe uretprobe u_nop r=%ax
use
probe kprobe-optimised __x64_sys_getppid+5
use
go
END
probecost "$KREPRO_UNIT" "$@" </run/validate.script

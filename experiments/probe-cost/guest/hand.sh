#!/bin/sh
# SPDX-License-Identifier: MIT
# hand [--only PREFIX,...]: runs of which a person can count on paper what they fire, record and execute (hand.py).
cat >/run/hand.script <<'END'
run hand.calls work=getppid rounds=100 batches=3 check=1
probe syscall sys_enter_getppid
use
use hist=keys=common_pid record=0
go
# The one reader looks when all is done.
run hand.pages work=getppid rounds=900 batches=1 drain=100000
probe syscall sys_enter_getppid
use
go
run hand.filter work=unop rounds=250 batches=2 check=1
probe uprobe u_nop a=%di
use filter=a<30
use hist=keys=a record=0 filter=a<30
go
run hand.program work=getppid rounds=100 batches=3
probe syscall sys_enter_getppid
use bpf=0
go
run hand.program250 work=getppid rounds=100 batches=3
probe syscall sys_enter_getppid
use bpf=250
go
run hand.turn work=getppid rounds=100 batches=3 spin=1
go
run hand.turns1000 work=getppid rounds=100 batches=3 spin=1001
go
run hand.dd work=dd rounds=5 batches=3 check=1
probe syscall sys_enter_write
use filter=count==16
use hist=keys=count record=0 filter=count==16
probe kprobe-ftrace write_null n=%dx
use
go
END
probecost "$KREPRO_UNIT" "$@" </run/hand.script

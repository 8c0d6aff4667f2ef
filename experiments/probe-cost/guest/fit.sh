#!/bin/sh
# SPDX-License-Identifier: MIT
# fit [--only PREFIX,...]: runs of probecost that differ in one thing each. Names are PROVIDER.WHAT; analysis.py says which two make a stage.
# With KREPRO_BRIEF=1 without those that no stage is made of, which take much of a host's time.

# On the wall clock some batches are slow for reasons of the host's.
more=
[ "$KREPRO_UNIT:$KREPRO_BRIEF" = ns:1 ] && more=" batches=31"

tracing=/sys/kernel/tracing

# block NAME WORK WORDS PROBE [USE ...]
block() {
	case $KREPRO_BRIEF:$1 in 1:*.eight | 1:*.others | 1:*.overwriting) return ;; esac
	echo "run $1 work=$2 $3$more"
	[ -n "$4" ] && echo "probe $4"
	shift 4
	for use; do echo "use $use"; done
	echo go
}

# What all providers have: PROVIDER WORK TARGET [NUMBER OF OTHERS]
common() {
	p=$1 w=$2 t=$3
	block "$p.one" "$w" "" "$p $t" ""
	block "$p.two" "$w" "" "$p $t" "" ""
	block "$p.four" "$w" "" "$p $t" "" "" "" ""
	block "$p.eight" "$w" "" "$p $t" "" "" "" "" "" "" "" ""
	block "$p.true" "$w" "" "$p $t" "filter=common_pid>0"
	block "$p.true3" "$w" "" "$p $t" "filter=common_pid>0&&common_pid!=1&&common_pid<99999"
	block "$p.false" "$w" "" "$p $t" "filter=common_pid<0"
	block "$p.stack" "$w" "" "$p $t" "stack=1"
	block "$p.hist" "$w" "" "$p $t" "hist=keys=common_pid"
	block "$p.hist-only" "$w" "" "$p $t" "hist=keys=common_pid record=0"
	block "$p.hist-true" "$w" "" "$p $t" "hist=keys=common_pid record=0 filter=common_pid>0"
	block "$p.hist-false" "$w" "" "$p $t" "hist=keys=common_pid record=0 filter=common_pid<0"
	block "$p.program" "$w" "" "$p $t" "bpf=0"
	block "$p.program2" "$w" "" "$p $t" "bpf=0" "bpf=0"
	block "$p.program100" "$w" "" "$p $t" "bpf=100"
	block "$p.map" "$w" "" "$p $t" "bpf=0 map=1"
	sampled "$p.sampled" "$w" "$t" "" "" "" ""
	sampled "$p.sampled-stack" "$w" "$t" "stack=1"
	block "$p.others" "$w" "others=${4:-64}" "$p $t" ""
}

# A sampler beside a probe, so that samples fall into its handling: PROVIDER.WHAT WORK TARGET USE ...
sampled() {
	n=$1
	echo "run $n work=$2$more"
	echo "probe ${n%%.*} $3"
	shift 3
	for use; do echo "use $use"; done
	printf 'probe sample 20011\nuse stack=1\ngo\n'
}

# Those whose events record what one asks for: PROVIDER WORK TARGET REGISTER POINTER
fields() {
	p=$1 w=$2 t=$3 r=$4 s=$5
	block "$p.register" "$w" "" "$p $t a=$r" ""
	block "$p.register5" "$w" "" "$p $t a=$r b=$r c=$r d=$r e=$r" ""
	block "$p.memory" "$w" "" "$p $t a=+0($s):u64" ""
	block "$p.memory3" "$w" "" "$p $t a=+0($s):u64 b=+8($s):u64 c=+16($s):u64" ""
	block "$p.comm" "$w" "" "$p $t a=\$comm" ""
	block "$p.comm3" "$w" "" "$p $t a=\$comm b=\$comm c=\$comm" ""
}

# Two events on one place share its trap: PROVIDER WORK TARGET
double() {
	printf 'run %s.double work=%s%s\nprobe %s %s\nuse\nprobe %s %s\nuse\ngo\n' "$1" "$2" "$more" "$1" "$3" "$1" "$3"
}

{
	for w in getppid getuid rename itimer signal upush ustep umark; do
		echo "run bare.$w work=$w$more"
		echo go
	done
	for kind in ftrace:__x64_sys_getppid optimised:__x64_sys_getppid+5 int3:__x64_sys_getppid+5; do
		common "kprobe-${kind%%:*}" getppid "${kind#*:}" 256
		fields "kprobe-${kind%%:*}" getppid "${kind#*:}" %di %di
		double "kprobe-${kind%%:*}" getppid "${kind#*:}"
	done
	common kretprobe getppid __x64_sys_getppid 256
	fields kretprobe getppid __x64_sys_getppid %ax %sp
	double kretprobe getppid __x64_sys_getppid
	common uprobe upush u_push
	fields uprobe upush u_push %di %sp
	double uprobe upush u_push
	common uprobe-step ustep u_step
	fields uprobe-step ustep u_step %di %sp
	double uprobe-step ustep u_step
	common uretprobe upush u_push
	fields uretprobe upush u_push %ax %sp
	double uretprobe upush u_push
	common usdt umark usdt_mark
	fields usdt umark usdt_mark %di %sp
	double usdt umark usdt_mark
	common tracepoint rename task/task_rename
	common syscall getppid sys_enter_getppid
	common syscall-return getppid sys_exit_getppid
	for t in timer/itimer_state:itimer signal/signal_generate:signal; do
		block "tracepoint@${t%:*}.one" "${t#*:}" "" "tracepoint ${t%:*}" ""
		block "tracepoint@${t%:*}.two" "${t#*:}" "" "tracepoint ${t%:*}" "" ""
	done
	for f in ksys_read vfs_read pipe_read; do
		block "frames@$f.one" pipe "" "kprobe-ftrace $f" ""
		block "frames@$f.stack" pipe "" "kprobe-ftrace $f" "stack=1"
	done
	# Aggregation by one, two and three keys, and by a value.
	k="kprobe-ftrace __x64_sys_getppid a=%di b=%di c=%di"
	block general.keys1 getppid "" "$k" "hist=keys=a"
	block general.keys2 getppid "" "$k" "hist=keys=a,b"
	block general.keys3 getppid "" "$k" "hist=keys=a,b,c"
	block general.value getppid "" "$k" "hist=keys=a:vals=b"
	# What enabled probes cost where they do not fire.
	block syscall.tax getuid "" "syscall sys_enter_getppid" ""
	block syscall.tax2 getuid "" "syscall sys_enter_getppid" "" ""
	block syscall.tax-program getuid "" "syscall sys_enter_getppid" "bpf=0"
	block syscall-return.tax getuid "" "syscall-return sys_exit_getppid" ""
	block syscall-return.tax2 getuid "" "syscall-return sys_exit_getppid" "" ""
	block syscall-return.tax-program getuid "" "syscall-return sys_exit_getppid" "bpf=0"
	printf 'run general.tax-both work=getuid%s\nprobe syscall sys_enter_getppid\nuse\nprobe syscall-return sys_exit_getppid\nuse\ngo\n' "$more"
	# While something records, each switch keeps the names of the tasks whose events were recorded.
	block general.switch pingpong "" "kprobe-ftrace pipe_read" ""
	block general.switch-nameless pingpong "cmdlines=0" "kprobe-ftrace pipe_read" ""
	# What programs call, so often; read and string also look for their text, once.
	t="tracepoint task/task_rename"
	block call.none rename "" "$t" "bpf=0 calls=pid:1"
	block call.kept rename "" "$t" "bpf=0 calls=pid:1 keeps=1"
	block call.first rename "" "$t" "bpf=0 calls=read/8:1"
	for c in pid uid time boot cpu task random comm read/8 read/128 uread/8 uread/128 string/16 string/128 ustring/16 \
		ustring/128 look/8 look/80 put/8 put/80 hlook/8 hlook/80 hput/8 hput/80 renew/8 renew/80; do
		block "call.$c" rename "" "$t" "bpf=0 calls=$c:5"
	done
	for f in ksys_read vfs_read pipe_read; do
		block "call-stack@$f.none" pipe "" "kprobe-ftrace $f" "bpf=0 calls=pid:1"
		block "call-stack@$f.one" pipe "" "kprobe-ftrace $f" "bpf=0 calls=stack:1"
	done
	block "call-stack@enter.none" getppid "" "syscall sys_enter_getppid" "bpf=0 calls=pid:1"
	block "call-stack@enter.one" getppid "" "syscall sys_enter_getppid" "bpf=0 calls=stack:1"
	for c in ring=8 ring=128 perf=8 perf=128; do
		block "out.$c" rename "rounds=100" "$t" "bpf=0 $c"
	done
	# Strings of a user's, of two lengths; and filters on one.
	s="kprobe-ftrace do_sys_openat2"
	for l in 12 100; do
		block "string.$l" path "path=$l" "$s" ""
		block "string.$l.one" path "path=$l" "$s p=+0(%si):ustring" ""
	done
	block string.differs path path=100 "$s p=+0(%si):ustring" "filter=p!='x'"
	block string.begins path path=100 "$s p=+0(%si):ustring" "filter=p~'/run/ppppppppppppppppppppppppppppppppppp*'"
	# Newer kernels copy what an argument points to into a call's event: a string, or as many bytes as another one says.
	[ -e $tracing/kprobe_events ] || mount -t tracefs none $tracing
	if grep -qs __data_loc $tracing/events/syscalls/sys_enter_openat/format; then
		for c in string:path:openat data:written:write; do
			t=${c##*:} w=${c#*:}
			for l in 12 60; do
				n=${c%%:*}-copied.$l
				block "$n.two" "${w%%:*}" "path=$l" "syscall sys_enter_$t" "" ""
				block "$n.four" "${w%%:*}" "path=$l" "syscall sys_enter_$t" "" "" "" ""
				block "$n.program" "${w%%:*}" "path=$l" "syscall sys_enter_$t" "bpf=0 calls=pid:1"
				block "$n.kept" "${w%%:*}" "path=$l" "syscall sys_enter_$t" "bpf=0 calls=pid:1 keeps=1"
			done
		done
	fi
	# Those that only programs use.
	for p in "fprobe:getppid:__x64_sys_getppid" "raw-tracepoint:rename:task/task_rename"; do
		t=${p##*:} w=${p#*:} n=${p%%:*}
		block "$n.program" "${w%%:*}" "" "$n $t" "bpf=0"
		block "$n.program100" "${w%%:*}" "" "$n $t" "bpf=100"
		block "$n.map" "${w%%:*}" "" "$n $t" "bpf=0 map=1"
		# A second one on the same place makes a list of it.
		block "$n.program2" "${w%%:*}" "" "$n $t" "bpf=0" "bpf=0"
		block "$n.program4" "${w%%:*}" "" "$n $t" "bpf=0" "bpf=0" "bpf=0" "bpf=0"
		c="bpf=0 calls=look/8:4,put/8:4"
		block "$n.called" "${w%%:*}" "" "$n $t" "$c" "$c"
		sampled "$n.sampled" "${w%%:*}" "$t" "$c" "$c"
	done
	# Where two listen to one function by ftrace, those are asked too that listen to others; and a kprobe beside one.
	f="probe fprobe __x64_sys_getppid" u="use bpf=0"
	t="$f\n$u\n$u\nprobe fprobe __x64_sys_getuid\n$u\n$u\n$u\n$u"
	printf "run fprobe.listed work=getppid%s\n$t\ngo\n" "$more"
	printf "run fprobe.mixed work=getppid%s\nprobe kprobe-ftrace __x64_sys_getppid\nuse\n$f\n$u\ngo\n" "$more"
	# Time-driven: samples, and the periodic refresh.
	printf 'run bare.spin work=nothing rounds=40 spin=100000%s\ngo\n' "$more"
	block sample.one nothing "rounds=40 spin=100000" "sample 100000" ""
	block sample.two nothing "rounds=40 spin=100000" "sample 50000" ""
	block sample.stack nothing "rounds=40 spin=100000" "sample 100000" "stack=1"
	block general.idle nothing "rounds=40 spin=100000" "kprobe-ftrace __x64_sys_getppid" ""
	block general.wake nothing "rounds=40 spin=100000 drain=500" "kprobe-ftrace __x64_sys_getppid" ""
	block general.idle4 nothing "rounds=40 spin=100000" "kprobe-ftrace __x64_sys_getppid" "" "" "" ""
	block general.wake4 nothing "rounds=40 spin=100000 drain=500 readers=2" "kprobe-ftrace __x64_sys_getppid" "" "" "" ""
	block general.wake2 nothing "rounds=40 spin=100000 drain=500" "kprobe-ftrace __x64_sys_getppid" "" ""
	block sample.program nothing "rounds=40 spin=100000" "sample 100000" "bpf=0"
	# Stacks of the kernel's, of workloads with many and with few.
	for w in pipe:1500 path:400 itimer:2000 rename:6000 getppid:8000; do
		block "sample.in-${w%:*}" "${w%:*}" "rounds=${w#*:}" "sample 20011" "stack=1"
	done
	block bare.pipe pipe "rounds=1500" ""
	block bare.path path "" ""
	for d in 10 40; do
		block "sample.frames$d" frames "rounds=40 depth=$d" "sample 100000" "stack=1"
		block "bare.frames$d" frames "rounds=40 depth=$d" ""
	done
	# What the reader takes: whole pages, and the events of one that is being written, one by one.
	d="kprobe-ftrace __x64_sys_getppid"
	f="a=%di b=%di c=%di d=%di e=%di"
	block drain.small getppid "spin=1000 rounds=2000" "$d" ""
	block drain.large getppid "spin=1000 rounds=2000" "$d $f" ""
	block drain.small.often getppid "spin=1000 rounds=2000 drain=150" "$d" ""
	block drain.small.seldom getppid "spin=1000 rounds=2000 drain=3000" "$d" ""
	block drain.small.half getppid "spin=1000 rounds=2000 drain=400" "$d" ""
	block drain.large.half getppid "spin=1000 rounds=2000 drain=150" "$d $f" ""
	for c in ring perf; do
		block "drain.$c" getppid "spin=1000 rounds=500" "$d" "bpf=0 $c=32"
		block "drain.$c.half" getppid "spin=1000 rounds=500 drain=400" "$d" "bpf=0 $c=32"
		block "drain.$c.idle" nothing "rounds=40 spin=100000 drain=500" "$d" "bpf=0 $c=32"
		block "drain.$c.unread" nothing "rounds=40 spin=100000" "$d" "bpf=0 $c=32"
	done
	# An event that wakes up who waits for it, as bpftrace does.
	for c in ring perf; do
		block "drain.$c.waited" getppid "spin=1000 rounds=500 drain=1" "$d" "bpf=0 $c=32 wakes=1"
	done
	block general.undrained getppid "spin=1000 rounds=2000" "kprobe-ftrace __x64_sys_getppid a=%di b=%di" ""
	block general.drained getppid "spin=1000 rounds=2000 drain=500" "kprobe-ftrace __x64_sys_getppid a=%di b=%di" ""
	# The ring buffer when it is full and the oldest page is given up for each new one.
	block general.overwriting getppid "rounds=2000 buffer=16" "kprobe-ftrace __x64_sys_getppid" ""
} >/run/fit.script
probecost "$KREPRO_UNIT" "$@" </run/fit.script

# SPDX-License-Identifier: MIT
"""Lock traces of programs that users bring: `./inv locks`."""

from __future__ import annotations

import shutil
from pathlib import Path

from harness.measure.tracer import Traced, Tracer

from .report.meanwhile import meanwhile
from .report.program import report

#: Every `watch` seconds: the time, the rate of the TSC, the locks, and the places where somebody waited.
#: The kernel itself counts waits for locks of kinds that the trace does not know: no flag, LCB_F_RT, LCB_F_PERCPU.
#: Threads that end are named by the kernel's trace point, the others by /proc.
COMMAND = """\
out=$KREPRO_OUT tracing=/sys/kernel/tracing
mount -t debugfs none /sys/kernel/debug || exit
mount -t tracefs none "$tracing" && echo 1 >"$tracing/events/sched/sched_process_exit/enable"
grep '\\[' /proc/kallsyms >"$out/modules.begin"
dmesg | grep 'percpu: Embedded' >"$out/percpu"
if [ "$KREPRO_WATCH" != 0 ]; then
	for at in /sys/class/virtio-ports/*; do
		read -r name <"$at/name" && [ "$name" = krepro.stream ] && port=/dev/${at##*/}
	done
	mkdir "$out/rate" && locktrace -m per-lock -o "$out/rate" /run/krepro/busybox true || exit
	tables=/sys/kernel/debug/lock_trace nobody=$(printf '^\\([^\\t]*\\t\\)\\{5\\}0\\t')
	while sleep "$KREPRO_WATCH"; do
		cat /proc/uptime && grep tsc_khz "$out/rate/status.json" && cat $tables/locks &&
			grep -v "$nobody" $tables/sites && echo
	done >"$port" &
	watching=$!
fi
untraced=$tracing/events/lock/contention_begin
echo 'hist:keys=flags if flags == 0 || flags & 24' >"$untraced/trigger" || exit
until_timeout locktrace -m per-lock -o "$out" -- "$@"
status=$?
cat "$untraced/hist" >"$out/untraced"
[ "$KREPRO_WATCH" = 0 ] || kill "$watching"
[ -s "$out/status.json" ] || exit "$status"
stacks=/sys/kernel/debug/lock_trace/stacks
[ ! -e "$stacks" ] || cat "$stacks" >"$out/stacks.tsv"
grep '\\[' /proc/kallsyms >"$out/modules"
cat "$tracing/trace" >"$out/exits"
for task in /proc/[0-9]*/task/[0-9]*; do
	read -r name <"$task/comm" && echo "${task##*/} $name"
done >"$out/threads" 2>/dev/null
exit 0
"""

TRACER = Tracer(
    kernel="modern-6.1-stacks",
    command=COMMAND,
    params={"watch": 0},
    devices=("stream",),
    traces="locks",
    cpus=2,
    several={"lock_trace": "on"},
    layouts="layouts",
)


def traced(program: Traced, out: Path) -> list[str]:
    """The page about it, with the stacks and the time line, and the trace beside that."""
    lines = report(program, out)
    for name in ("events.bin", "status.json", "locks.tsv", "sites.tsv", "stacks.tsv"):
        if (program.left / name).is_file():  # not every kernel records stacks
            shutil.move(program.left / name, out / name)
    return lines


def watched(part: str, before: str | None) -> list[str]:
    """What was waited for since the part before."""
    return meanwhile(part, before)

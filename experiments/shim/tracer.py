# SPDX-License-Identifier: MIT
"""Counters of programs that users bring, read from the neighbouring CPU: `./inv counters`."""

from __future__ import annotations

from pathlib import Path

from harness.measure.tracer import Traced, Tracer

from .report.program import report

#: 1 GiB of samples, as a trace may have: above 160 s at 10 us.
MOST_SAMPLES = 16_000_000

#: The program has CPU 1 alone; the observer, and all else that can be, is on CPU 0. The module tells the hardware's
#: counters too (instructions, cycles); where no module can be built, a BPF program tells who runs.
COMMAND = f"""\
out=$KREPRO_OUT tracing=/sys/kernel/tracing busybox=/run/krepro/busybox
for at in /sys/class/virtio-ports/*; do
	read -r name <"$at/name" && [ "$name" = krepro.stream ] && port=/dev/${{at##*/}}
done
$busybox taskset -p 1 $$ >/dev/null
mount -t tracefs none "$tracing" || exit
for event in fork exit; do
	echo 1 >"$tracing/events/sched/sched_process_$event/enable" || exit
done
module=/sys/module/ppid_tracepoint/parameters
if [ -e $module/active ]; then
	echo 1,0 >$module/events && echo 1 >$module/active || exit
else
	ppidbpf on || exit
fi
shim run --cpu 1 --seconds 86400 --period 10us --event instructions --event cpu-cycles --event cache-misses \\
	--event branch-misses --out "$out/observer" --samples "$port" --limit {MOST_SAMPLES} \\
	--switches "$out/switches.bin" --ring 262144 --drain 5 &
observer=$!
until [ -s "$out/switches.bin" ]; do
	kill -0 "$observer" || exit
	$busybox usleep 5000
done
until_timeout $busybox taskset 2 "$@"
kill "$observer" && wait "$observer" || exit
cp /run/krepro/tracer "$out/first"
cat "$tracing/trace" >"$out/threads"
for task in /proc/[0-9]*/task/[0-9]*; do
	read -r name <"$task/comm" && echo "${{task##*/}} $name"
done >"$out/alive" 2>/dev/null
exit 0
"""

TRACER = Tracer(
    kernel="debian:6.12",
    command=COMMAND,
    devices=("stream", "counters"),
    traces="counters",
    cpus=2,
    several={"skew_tick": 1},
    oracle=("counters",),
    modules="where they can be built",
)


def traced(program: Traced, out: Path) -> list[str]:
    """The page about it, and its tables beside that."""
    return report(program, out)

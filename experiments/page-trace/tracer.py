# SPDX-License-Identifier: MIT
"""Page traces of programs that users bring: `./inv trace`."""

from __future__ import annotations

import shutil
from pathlib import Path

from harness.measure.tracer import Traced, Tracer

from .report.program import report

COMMAND = """\
for at in /sys/class/virtio-ports/*; do
	read -r name <"$at/name" && [ "$name" = krepro.stream ] && port=/dev/${at##*/}
done
follow=
[ "$KREPRO_FOLLOW" = on ] && follow=-f
until_timeout in-place pagetrace -W -z -l "$KREPRO_MOST_BYTES" -w "$KREPRO_WINDOW" $follow -o "$port" \\
	-s "$KREPRO_OUT/trace.json" -m "$KREPRO_OUT/maps" -- "$@"
status=$?
[ -s "$KREPRO_OUT/trace.json" ] || exit "$status"
"""

TRACER = Tracer(
    kernel="modern-6.1",
    command=COMMAND,
    params={"window": 1, "follow": True, "most_bytes": 1 << 30},
    devices=("stream",),
)


def traced(program: Traced, out: Path) -> list[str]:
    """The page about it, and its trace beside that, with what the kernel counted and the programs' mappings."""
    lines = report(program, program.raw / "stream", out)
    shutil.move(program.raw / "stream", out / "trace")
    for path in (program.left / "trace.json", *sorted(program.left.glob("maps*"))):
        shutil.copyfile(path, out / path.name)
    return lines

# SPDX-License-Identifier: MIT
"""The shell text by which a guest traces a user's program, and what that leaves."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from harness.program.ownmodules import BUSYBOX

#: Where the program's root lies in the guest, and its standard input in that.
ROOT, STDIN = "/program", "/.stdin"
#: The guest's own folders that the program and its tracer see.
SHARED = ("dev", "proc", "sys", "run", "krepro")
#: In what came out of the guest: the program was ended at its timeout; and its exit status.
ENDED, STATUS = "timed-out", "exit-status"
#: Of the guest, but for what tracers have of their own.
GUEST_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
#: Seconds that a program has which is asked to end, and that its tracer has after it was killed.
ASKED_S, KILLED_S = 5, 5
#: Of the guest, for what waits for that.
BELOW = "/run/krepro"


def command(tracer: str, folder: str, words: Sequence[str], timeout_s: int) -> str:
    """The workload's shell text: the tracer's command in the program's root, beside the guest's own folders."""
    inside = f'cd "$1" || exit; shift\n{_until_timeout(timeout_s)}{tracer}'
    return f"""\
export KREPRO_OUT=/run/krepro/out/$KREPRO_WORKLOAD
for at in {" ".join(SHARED)}; do
	mkdir -p {ROOT}/$at && mount -o bind /$at {ROOT}/$at || exit
done
cp /bin/busybox {BUSYBOX} || exit
/bin/busybox ifconfig lo up 2>/dev/null
export PATH=/krepro/bin:{GUEST_PATH}
exec /bin/chroot {ROOT} {BUSYBOX} sh -c {shlex.quote(inside)} sh {shlex.join([folder, *words])} <{ROOT}{STDIN}
"""


def _until_timeout(timeout_s: int) -> str:
    """A shell function that runs a tracer, and ends the program when its time is over: the trace is kept.

    The tracer is in the foreground, since one in the background has no standard input and ignores SIGINT. It passes
    SIGTERM on to the program, and ends at the next one even though children of the program go on. What waits is one
    process, with nothing below it, so that it can be ended by one signal too.
    """
    return f"""\
until_timeout() {{
	mkfifo {BELOW}/never || return
	(
		read -r -t {timeout_s} never <>{BELOW}/never
		read -r tracer <{BELOW}/tracer && echo >"$KREPRO_OUT/{ENDED}" && kill "$tracer"
		read -r -t {ASKED_S} never <>{BELOW}/never
		for at in $(grep -ls "^PPid:.$tracer$" /proc/[0-9]*/status); do
			at=${{at%/status}} && kill -KILL "${{at#/proc/}}"
		done
		read -r -t {KILLED_S} never <>{BELOW}/never
		kill "$tracer"
	) &
	waiting=$!
	{BUSYBOX} sh -c 'echo $$ >{BELOW}/tracer; exec "$@"' sh "$@"
	set -- "$?"
	echo "$1" >"$KREPRO_OUT/{STATUS}"
	kill "$waiting"
	return "$1"
}}
"""

# SPDX-License-Identifier: MIT
"""What the self-test does in a guest, and what of it must come out: small work whose answer is known, for every kind.

The work is the kit's own, of programs that are in every image. So it takes seconds, and tells what a host can do apart
from what an experiment makes of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from harness.choices import OracleMode
from harness.errors import KreproError, RunError
from harness.experiment.model import Workload
from harness.host.kinds import Kind
from harness.measure.symbols import SymbolMap, read_system_map
from harness.oracle.reader import LAP, Oracle

WORK = "work"
#: Guest time that all of the work may take, s: it takes one or two, and a host may be slow.
TIMEOUT_S = 30.0
TRANSFER_BYTES = 4 << 20
LOOP, LOOP_TOLERANCE = 2_000_000, 1e-4
PAGES_SEED, PAGE_ACCESSES, FIRST_PAGE, PAGES = 7, 20_000, 0x20000000 >> 12, 64
#: Published counts grow by whole blocks, and interrupts are counted with the loop: the least of three counts.
PUBLISHED_MOST = 1.25
COUNTER_LOOPS = 1_000_000

_BEGIN = f"""\
fail() {{ echo "$1" >&2; exit 1; }}
cd {WORK} || exit 1
grep -c ^processor /proc/cpuinfo >cpus
grep -m1 ^flags /proc/cpuinfo >flags
krepro-known loop {LOOP} || fail 'the known loop did not run'
head -c {TRANSFER_BYTES} /dev/urandom >transfer && sha256sum <transfer >transfer.sha256
"""
#: Every CPU at once; not by the known loop, whose marks are for one CPU at a time.
_EVERY_CPU = """\
started=
for cpu in $(seq 0 {last}); do
taskset $(printf %x $((1 << cpu))) sha256sum <transfer >transfer.$cpu & started="$started $!"
done
for one in $started; do wait $one || fail 'a CPU did not do its part'; done
for cpu in $(seq 0 {last}); do
cmp -s transfer.$cpu transfer.sha256 || fail "CPU $cpu: another hash of the same bytes"
done
"""
_EDU = """\
for at in /sys/bus/pci/devices/*; do
[ "$(cat $at/vendor $at/device)" = "0x1234
0x11e8" ] && edu=$at
done
[ "$edu" ] || fail 'edu: the device is not there'
echo 1 >$edu/enable
read -r start rest <$edu/resource
devmem $((start + 4)) 32 0x12345678
[ "$(devmem $((start + 4)))" = 0xEDCBA987 ] || fail 'edu: its register does not hold the complement of what was written'
"""
_DISK = """\
for at in /sys/block/[shv]d?; do disk=/dev/${at##*/}; done
[ -b "$disk" ] || fail 'disk: the device is not there'
head -c 1048576 /dev/urandom >/tmp/written
cat /tmp/written >$disk && sync && echo 3 >/proc/sys/vm/drop_caches
head -c 1048576 $disk | cmp -s - /tmp/written || fail 'disk: what is read is not what was written'
"""
_NET = """\
ifconfig eth0 10.0.2.15 netmask 255.255.255.0
mkfifo /tmp/silent
came=$(nc 10.0.2.100 9000 <>/tmp/silent | head -c 1048576 | wc -c)
[ "$came" = 1048576 ] || fail "net: $came of 1048576 bytes came"
"""
#: What is written there is the host's to look at, so this only tries the port.
_STREAM = """\
for at in /sys/class/virtio-ports/*; do
[ "$(cat $at/name)" = krepro.stream ] && port=/dev/${at##*/}
done
[ -c "$port" ] && head -c 1048576 /dev/zero >$port || fail 'stream: the port does not take what is written'
"""
#: Nobody in the guest expects the oracle's NMIs, and the kernel says so of each.
_QUIET = "echo 0 >/proc/sys/kernel/printk\n"
_COUNTERS = f"""\
for turn in 1 2 3; do
taskset 1 krepro-counter {COUNTER_LOOPS} >>counters || fail 'counters: the device is not there'
done
"""
_PAGES = f"krepro-known pages {PAGES_SEED} {PAGE_ACCESSES} alone || fail 'the known accesses did not run'\n"


class Absent(RunError):
    """The kind cannot be had on this host, and why."""


def work_of(kind: Kind) -> Workload:
    """The workload for an arm of this kind."""
    parts = [_QUIET * ("nmi" in kind.oracle), _BEGIN]
    parts += [_EVERY_CPU.format(last=kind.cpus - 1)] * (kind.cpus > 1)
    parts += [_EDU] * ("edu" in kind.devices)
    parts += [_DISK] * ("disk" in kind.devices)
    parts += [_NET] * ("net" in kind.devices)
    parts += [_STREAM] * ("stream" in kind.devices)
    parts += [_COUNTERS] * ("counters" in kind.oracle)
    parts += [_PAGES] * ("pages" in kind.oracle)
    return Workload(command="".join(parts), timeout_s=TIMEOUT_S)


def check_work(kind: Kind, cpu_features: Sequence[str], trial: Path, system_map: Path) -> list[str]:
    """See that all is in the raw folder `trial` that must be; what else is worth a word.

    `cpu_features` are those of the kernel's machine, as `+la57` or `-hypervisor`. RunError for what is wrong, Absent
    for what this host's CPU or QEMU has not.
    """
    folder = trial / WORK
    cpus = _text(folder / "cpus").strip()
    if cpus != str(kind.cpus):
        raise RunError(f"the guest has {cpus or 'no'} CPUs, not {kind.cpus}")
    _check_transfer(folder)
    remarks = _check_features(kind, cpu_features, _text(folder / "flags").partition(":")[2].split())
    if kind.oracle:
        _check_oracle(kind, trial, read_system_map(system_map))
    return remarks


def _check_transfer(folder: Path) -> None:
    try:
        data = (folder / "transfer").read_bytes()
    except OSError as error:
        raise RunError("the transferred file did not come") from error
    if len(data) != TRANSFER_BYTES:
        raise RunError(f"{len(data)} of {TRANSFER_BYTES} transferred bytes came")
    if hashlib.sha256(data).hexdigest() != _text(folder / "transfer.sha256").split(" ")[0]:
        raise RunError("the transferred file is not what the guest sent")


def _check_features(kind: Kind, wanted: Sequence[str], flags: Sequence[str]) -> list[str]:
    missing = [name[1:] for name in wanted if name.startswith("+") and name[1:] not in flags]
    extra = [name[1:] for name in wanted if name.startswith("-") and name[1:] in flags]
    if missing and kind.accelerator == "kvm":
        raise Absent(f"it ran, but the host's CPU has no {', '.join(missing)}, which this kernel's machine has")
    if missing:
        raise RunError(f"the guest's CPU has no {', '.join(missing)}")
    return [f"the guest's CPU has {name}, which this kernel's machine is not to have" for name in extra]


def _check_oracle(kind: Kind, trial: Path, symbols: SymbolMap) -> None:
    oracle = Oracle(trial)
    for mode in kind.oracle:
        reason = oracle.report.modes.get(mode)
        if reason is not None:
            raise Absent(f"oracle mode {mode}: {reason}")
    for mode in kind.oracle:
        try:
            oracle.need(mode)
            _check_mode(mode, oracle, trial, symbols)
        except KreproError as error:
            raise RunError(f"oracle mode {mode}: {error.message}") from error


def _check_mode(mode: OracleMode, oracle: Oracle, trial: Path, symbols: SymbolMap) -> None:
    if mode == "functions":
        table = oracle.functions(symbols, kind=LAP)
        counted = int(table.loc[table["context"] == "user", "instructions"].sum())
        if abs(counted - LOOP) > LOOP * LOOP_TOLERANCE:
            raise RunError(f"{LOOP} known instructions were counted as {counted}")
    elif mode == "pages":
        runs = oracle.pages().runs()
        inside = runs["page"].between(FIRST_PAGE, FIRST_PAGE + PAGES - 1)
        seen = int(runs.loc[inside, "count"].sum())
        if seen != PAGE_ACCESSES:
            raise RunError(f"of {PAGE_ACCESSES} known accesses {seen} were seen")
    elif mode == "sampler" and oracle.samples(symbols).empty:
        raise RunError("there are no samples")
    elif mode == "nmi" and not (oracle.report.nmi and oracle.report.nmi.sent):
        raise RunError("no NMI was sent")
    elif mode == "locks" and oracle.locks(symbols).empty:
        raise RunError("no call was counted")
    elif mode == "counters":
        published = [json.loads(line) for line in _text(trial / WORK / "counters").splitlines()]
        counted = min((one["after"][one["cpu"]] - one["before"][one["cpu"]] for one in published), default=0)
        if not 2 * COUNTER_LOOPS <= counted <= 2 * COUNTER_LOOPS * PUBLISHED_MOST:
            raise RunError(f"{2 * COUNTER_LOOPS} known instructions were published as {counted}")


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""

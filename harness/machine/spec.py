# SPDX-License-Identifier: MIT
"""What a machine is, before it runs: a value that can be hashed, sent to a worker and put in a manifest."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from harness.choices import MOST_CPUS
from harness.errors import UsageError
from harness.kernel.spec import Hardware
from harness.machine.board import Board, board_of
from harness.machine.kvmcpu import tsc_khz
from harness.machine.sandbox import View
from harness.yamlfile import Strict

Accelerator = Literal["tcg", "kvm"]
Clock = Literal["virtual", "wall"]
SessionKind = Literal["ssh", "mailbox", "console"]
Device = Literal["edu", "disk", "net", "counters", "stream"]
Record = Literal["off", "record", "replay"]

#: Devices whose completions come from host threads or the host's network, and so cannot keep the bits.
HOST_TIMED: frozenset[Device] = frozenset({"disk", "net"})

#: Nanoseconds of virtual time per instruction are 2**shift; 3 boots fastest, 0 makes rdtsc count instructions.
DEFAULT_ICOUNT_SHIFT = 3
#: Every virtual clock starts here; what differs per trial comes in with its seed.
RTC_BASE = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
#: Bytes of the fw_cfg file that carries a job; the guest learns the size at boot, so it never changes.
MAILBOX_BYTES = 8192
DISK_BYTES = 64 << 20
#: The host's own CPU with the counters that it has.
KVM_CPU = "host,pmu=on"
#: QEMU's log of all that reached a recorded guest from outside, in the machine's folder.
RECORDING = "rr.log"
#: The keys that the recorded guest booted with, kept beside its log: they are part of its memory.
RECORDING_KEYS = "keys.cpio"
#: What was predicted of the trial before its guest booted, in the same folder.
PREDICTIONS = "predictions.json"
#: The file behind the memory of the device counters (ivshmem), in the machine's folder.
COUNTERS = "counters"
COUNTERS_BYTES = 4096
#: What a guest wrote to the port krepro.stream while it ran, in the machine's folder.
STREAM = "stream"
#: isa-debug-exit turns the 0 of a guest that has done its job into this exit status of QEMU; others give it themselves.
EXIT_DONE = 1
#: Where a plugin writes, below the machine's folder.
PLUGIN_FOLDER = "oracle"


class MachineSpec(Strict):
    """One machine: hardware, accelerator, clock, session, devices. Two equal specs boot the same way."""

    hardware: Hardware
    accelerator: Accelerator
    clock: Clock
    session: SessionKind
    cpus: int = Field(default=1, ge=1, le=MOST_CPUS)
    cmdline: tuple[str, ...] = ()
    devices: tuple[Device, ...] = ()
    icount_shift: int = Field(default=DEFAULT_ICOUNT_SHIFT, ge=0, le=10)
    record: Record = "off"

    @model_validator(mode="after")
    def _possible(self) -> MachineSpec:
        if self.cpus > 1 and not self.hardware.smp:
            raise ValueError("this kernel drives one CPU only")
        if self.clock == "virtual":
            if self.cpus != 1:
                raise ValueError("the virtual clock takes one CPU: QEMU cannot run icount on several")
            if self.accelerator != "tcg":
                raise ValueError("the virtual clock needs the tcg accelerator")
            if self.session == "ssh":
                raise ValueError("the virtual clock has no network card; its session is mailbox")
            host_timed = sorted(HOST_TIMED.intersection(self.devices))
            if host_timed:
                raise ValueError(
                    f"device {host_timed[0]} completes at moments that the host decides, which the virtual clock "
                    "cannot repeat; give that workload an arm with clock: wall"
                )
        if self.record != "off":
            self._check_recordable()
        return self

    def _check_recordable(self) -> None:
        if self.clock == "virtual":
            raise ValueError("record: the virtual clock repeats every bit without a recording; use clock: wall")
        if self.accelerator != "tcg":
            raise ValueError("record: QEMU counts instructions to place events, which needs the tcg accelerator")
        if self.cpus != 1:
            raise ValueError("record: QEMU records machines of one CPU only")
        if self.session != "ssh":
            raise ValueError(f"record: only ssh sessions are recorded, not session {self.session}")
        if "net" in self.devices:
            raise ValueError("record: a QEMU that records sends faster than a guest takes, and hangs; leave out net")

    @property
    def restorable(self) -> bool:
        """Whether a booted state of this machine is saved and restored.

        A recording begins with the boot: begun behind a restored state it does not always replay.
        """
        return self.session != "console" and self.record == "off"

    @property
    def board(self) -> Board:
        """What kind of machine it is."""
        return board_of(self.hardware.type)

    @property
    def needs_stale(self) -> bool:
        """Whether several threads of QEMU translate the guest's code."""
        return self.accelerator == "tcg" and self.cpus > 1

    @property
    def fidelity(self) -> Literal["virtual", "emulated", "kvm"]:
        """What kind of time figures of this machine are in; a proven PMU adds `+pmu` later."""
        if self.clock == "virtual" or self.record != "off":
            return "virtual"
        return "kvm" if self.accelerator == "kvm" else "emulated"


def machine_spec(who: str, **fields: Any) -> MachineSpec:
    """A MachineSpec of `fields`; UsageError beginning with `who` asked when there can be no such machine."""
    try:
        return MachineSpec(**fields)
    except ValidationError as error:
        message = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise UsageError(f"{who}: {message}") from error


class Plugin(Strict):
    """A TCG plugin and its arguments. It writes below the machine's folder, into PLUGIN_FOLDER."""

    path: Path
    arguments: dict[str, str] = {}


class BootFiles(Strict):
    """The files that a machine starts from.

    `halt` is the plugin that a virtual clock needs to be exact, `stale` the one that keeps translations true where TCG
    runs several CPUs.
    """

    kernel: Path
    initrds: tuple[Path, ...]
    halt: Path | None = None
    stale: Path | None = None


def argv(
    spec: MachineSpec,
    files: BootFiles,
    folder: Path,
    qmp_fd: int,
    *,
    incoming_fd: int | None = None,
    plugin: Plugin | None = None,
) -> list[str]:
    """QEMU's command line; host files are all in `folder`, and the CPUs wait for QMP's `cont`.

    `incoming_fd`: a saved state is read from there instead of booting. Raises UsageError when a path holds a comma,
    ValueError for a virtual clock without its plugin.
    """
    for path in (folder, files.kernel, *files.initrds, files.halt or "", files.stale or ""):
        if "," in str(path):
            raise UsageError("QEMU takes no comma in a path", where=str(path), hint="use another folder")
    hardware, board = spec.hardware, spec.board
    command = [board.qemu, "-nodefaults", "-no-user-config", "-display", "none", "-S"]
    command += ["-machine", hardware.type]
    command += ["-accel", spec.accelerator]
    command += ["-cpu", kvm_model(hardware.cpu) if spec.accelerator == "kvm" else hardware.cpu]
    command += ["-smp", str(spec.cpus), "-m", str(hardware.memory_mib)]
    command += _clock(spec, files, folder)
    command += ["-plugin", f"file={files.stale}"] * (spec.needs_stale and files.stale is not None)
    command += ["-kernel", str(files.kernel), "-initrd", str(initrd(files, folder))]
    command += ["-append", " ".join([*_timers(spec), *spec.cmdline, f"krepro.session={spec.session}"])]
    command += ["-chardev", f"socket,id=qmp,fd={qmp_fd}", "-mon", "chardev=qmp,mode=control"]
    if spec.session == "console":
        command += ["-chardev", "stdio,id=console,mux=on,signal=off", "-serial", "chardev:console"]
        command += ["-mon", "chardev=console,mode=readline"]
    else:
        command += ["-serial", f"file:{folder / 'console.log'}"]
    command += board.heartbeat(folder / "heartbeat")
    # ioeventfd would hand completions to a host thread, at moments that the host decides.
    command += ["-device", "virtio-serial-pci,id=ports,ioeventfd=off"]
    command += ["-chardev", f"file,id=bulk,path={folder / 'bulk'}"]
    command += ["-device", "virtserialport,bus=ports.0,chardev=bulk,name=krepro.bulk"]
    command += _stream(folder) if "stream" in spec.devices else []
    # A panic stops the CPUs and is looked at; the watchdog is how a guest stops itself to be saved (krepro-stop.c).
    command += ["-device", "pvpanic-pci", "-device", board.watchdog]
    command += ["-action", "panic=pause,watchdog=pause,reboot=shutdown"]
    command += board.ending
    if spec.session == "mailbox":
        command += ["-fw_cfg", f"name=opt/krepro/job,file={folder / 'job'}"]
    if "edu" in spec.devices:
        command += ["-device", "edu"]
    if "counters" in spec.devices:
        backend = f"memory-backend-file,id=counters,mem-path={folder / COUNTERS},size={COUNTERS_BYTES},share=on"
        command += ["-object", backend, "-device", "ivshmem-plain,memdev=counters,master=on"]
    if "disk" in spec.devices:
        command += _disk(spec, folder / "disk.raw")
    if spec.session == "ssh" or "net" in spec.devices:
        command += _network(spec)
    if plugin is not None:
        arguments = {"out": str(folder / PLUGIN_FOLDER), **plugin.arguments}
        if "counters" in spec.devices:
            arguments["counters"] = str(folder / COUNTERS)
        command += ["-plugin", ",".join([f"file={plugin.path}", *(f"{k}={v}" for k, v in arguments.items())])]
    if incoming_fd is not None:
        command += ["-incoming", f"fd:{incoming_fd}"]
    return command


def view(spec: MachineSpec, files: BootFiles, folder: Path, plugin: Plugin | None = None) -> View:
    """What the QEMU of such a machine needs of the host: the files that its command line names, and its folder."""
    named = [files.kernel, *files.initrds, files.halt, files.stale]
    if plugin is not None:
        named += [plugin.path, *(Path(text) for text in plugin.arguments.values() if text.startswith("/"))]
    return View(
        readable=tuple(path for path in named if path is not None),
        folder=folder,
        kvm=spec.accelerator == "kvm",
        preload=(files.halt,) if files.halt is not None and spec.clock == "virtual" and spec.record == "off" else (),
    )


def kvm_model(cpu: str) -> str:
    """QEMU's `-cpu` under KVM: the host's own, with the features that `cpu` has behind its model (`-hypervisor`)."""
    return ",".join([KVM_CPU, *cpu.split(",")[1:]])


def kvm_frequency() -> list[str]:
    """The boot parameter that gives a guest under KVM the frequency of its counter, where KVM tells it.

    A guest would measure it as it boots, wrongly on a busy host and not at all on a slow one: then its clock is a
    device, and each look at it an exit from the guest. (tsc_early_khz, Documentation/admin-guide/kernel-parameters.txt)
    """
    khz = tsc_khz()
    return [] if khz is None else [f"tsc_early_khz={khz}"]


def _timers(spec: MachineSpec) -> list[str]:
    """What a guest is told of its timers.

    Emulated on the wall clock, it is spared timer_irq_works() (arch/x86/kernel/apic/io_apic.c), as one under KVM spares
    itself (kvm_guest_init()). That waits some ticks in a busy loop: on a busy host QEMU does not bring them in time,
    and the guest takes its timer to be broken, at worst with a panic. A kernel without SMP has no IO-APIC to check.
    """
    if spec.accelerator == "kvm":
        return kvm_frequency()
    emulated_pc = spec.fidelity == "emulated" and spec.board.arch == "x86_64" and spec.hardware.smp
    return ["no_timer_check"] if emulated_pc else []


def _clock(spec: MachineSpec, files: BootFiles, folder: Path) -> list[str]:
    if spec.record != "off":
        return ["-icount", f"shift={spec.icount_shift},rr={spec.record},rrfile={folder / RECORDING}"]
    if spec.clock == "wall":
        return []
    if files.halt is None:
        raise ValueError("a machine with a virtual clock needs BootFiles.halt")
    words = ["-plugin", f"file={files.halt}", "-icount", f"shift={spec.icount_shift},sleep=off"]
    return [*words, "-rtc", f"base={RTC_BASE:%Y-%m-%dT%H:%M:%S},clock=vm", "-seed", "1"]


def _stream(folder: Path) -> list[str]:
    port = "virtserialport,bus=ports.0,chardev=stream,name=krepro.stream"
    return ["-chardev", f"file,id=stream,path={folder / STREAM}", "-device", port]


def _disk(spec: MachineSpec, file: Path) -> list[str]:
    device = "ide-hd,drive=disk" if spec.hardware.disk == "ide" else "virtio-blk-pci,drive=disk"
    if spec.record == "off":
        return ["-drive", f"id=disk,if=none,format=raw,file={file}", "-device", device]
    drives = ["-drive", f"id=image,if=none,format=raw,file={file}"]
    return [*drives, "-drive", "driver=blkreplay,if=none,image=image,id=disk", "-device", device]


def _network(spec: MachineSpec) -> list[str]:
    nic = f"{spec.hardware.nic},netdev=net"
    forwards = ",hostfwd=tcp:127.0.0.1:0-:22"
    if spec.record == "off":
        # A pipe that has no files of its own is one file that is read and written.
        zeros = ["-chardev", "pipe,id=zeros,path=/dev/zero"]
        forwards += ",guestfwd=tcp:10.0.2.100:9000-chardev:zeros"
        return [*zeros, "-netdev", f"user,id=net,restrict=on{forwards}", "-device", nic]
    if spec.record == "replay":
        forwards = ""  # packets come from the log; the host's network takes no part
    if spec.hardware.nic == "virtio-net-pci":
        nic += ",tx=timer"  # its usual way to send hangs in a replay
    filters = ["-object", "filter-replay,id=recorder,netdev=net"]
    return ["-netdev", f"user,id=net,restrict=on{forwards}", "-device", nic, *filters]


def initrd(files: BootFiles, folder: Path) -> Path:
    """One file with all initramfs archives: the kernel reads them one after another (initramfs buffer format)."""
    if len(files.initrds) == 1:
        return files.initrds[0]
    joined = folder / "initrd"
    if not joined.exists():
        with joined.open("wb") as sink:
            for part in files.initrds:
                data = part.read_bytes()
                sink.write(data + b"\0" * (-len(data) % 4))
    return joined


def prepare_folder(spec: MachineSpec, folder: Path, job: str | None) -> None:
    """Make the host files that a machine of this spec opens; UsageError when the job does not fit the mailbox."""
    folder.mkdir(parents=True, exist_ok=True)
    if spec.session == "mailbox":
        data = (job or "").encode()
        if len(data) > MAILBOX_BYTES:
            raise UsageError(
                f"the trial's commands take {len(data)} bytes; the mailbox holds {MAILBOX_BYTES}",
                hint="put long command lines into a script in the experiment's guest folder",
            )
        (folder / "job").write_bytes(data.ljust(MAILBOX_BYTES, b"\n"))
    if "disk" in spec.devices:
        with (folder / "disk.raw").open("wb") as disk:
            disk.truncate(DISK_BYTES)

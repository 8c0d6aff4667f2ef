# SPDX-License-Identifier: MIT
"""Both kernels boot, answer ssh, and are the machines that their specs promise."""

from __future__ import annotations

import socket
from pathlib import Path

import paramiko
import pytest

from harness.guest.ssh import Keys, SshSession
from harness.machine.machine import GuestLost
from tests.faults.rows import fault

pytestmark = pytest.mark.timeout(1800)


def test_classic_is_the_2_4_style_machine(classic, ssh_guest):
    machine, session = ssh_guest(classic, "profile=4", devices=("edu", "disk"))
    status, out, err = session.command(
        "echo 1 >/sys/bus/pci/rescan; uname -m; nproc; cat /proc/interrupts; "
        "head -c 4 /proc/profile | hexdump -e '1/4 \"%d\"'"
    )
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[:2] == ["i686", "1"]
    interrupts = [line.split() for line in lines if "XT-PIC" in line]
    assert ["0:", "timer"] in [[words[0], words[-1]] for words in interrupts]
    assert {"timer", "ata_piix", "krepro-edu"} <= {word.strip(",") for words in interrupts for word in words}
    assert not any("APIC" in line and "XT-PIC" not in line for line in lines[2:])
    assert lines[-1] == "16", "profile=4 means blocks of 2^4 bytes"
    assert machine.accelerator_in_use() == "tcg"


@pytest.mark.deep
def test_classic_ticks_a_hundred_times_a_second_even_when_idle(classic, ssh_guest):
    _, session = ssh_guest(classic)
    count = "awk '/XT-PIC +timer/ {print $2}' /proc/interrupts; cut -d' ' -f1 /proc/uptime"
    _, before, _ = session.command(count)
    session.command("sleep 2")
    _, after, _ = session.command(count)
    ticks = int(after.split()[0]) - int(before.split()[0])
    seconds = float(after.split()[1]) - float(before.split()[1])
    assert ticks / seconds == pytest.approx(100, rel=0.1)


def test_modern_is_smp(modern, ssh_guest):
    _, session = ssh_guest(modern, cpus=2)
    status, out, _ = session.command(
        "uname -rm; nproc; cat /sys/devices/system/clocksource/clocksource0/current_clocksource"
    )
    assert status == 0
    release, cpus, _clocksource = out.splitlines()
    assert release == "6.1.192 x86_64" or release.endswith("x86_64")
    assert cpus == "2"


@pytest.mark.deep
@fault("a guest has another ssh host key than its image", "the session is refused")
def test_a_guest_with_another_host_key_is_refused(classic, ssh_guest, tmp_path):
    machine, session = ssh_guest(classic)
    session.close()
    other = paramiko.RSAKey.generate(2048)
    del other
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from harness.image.keys import _public_line

    wrong = tmp_path / "host.pub"
    wrong.write_text(_public_line(Ed25519PrivateKey.generate()))
    with pytest.raises(Exception, match="host key is not the one of its image"):
        SshSession(machine, Keys(client=_client_key(classic), host=wrong), 20)


def _client_key(built):
    from harness.artefacts.store import Store
    from harness.image.keys import image_keys

    return image_keys(Store.default(), built.image).file("client")


def test_the_forwarded_port_is_on_the_loopback_of_a_network_of_qemus_own(classic, ssh_guest):
    machine, _ = ssh_guest(classic)
    if not machine.process.sandbox.program:
        pytest.skip("without bubblewrap QEMU has the host's own network")
    port = machine.forwarded_port()
    loopback = f"{int.from_bytes(socket.inet_aton('127.0.0.1'), 'little'):08X}:{port:04X}"
    assert listeners(Path(f"/proc/{machine.process.pid}/net/tcp"), port) == {loopback}
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 5)


def listeners(table: Path, port: int) -> set[str]:
    """Addresses that listen on `port`, as the kernel's table has them."""
    lines = [line.split() for line in table.read_text().splitlines()[1:]]
    return {words[1] for words in lines if words[1].endswith(f":{port:04X}") and words[3] == "0A"}


def test_a_panic_is_reported_with_what_the_kernel_said(classic, ssh_guest):
    machine, session = ssh_guest(classic)
    with pytest.raises(GuestLost) as caught:
        session.command("echo c >/proc/sysrq-trigger", 30)
    assert "panicked" in str(caught.value)
    assert "Kernel panic - not syncing: sysrq triggered crash" in machine.console()
    assert "EIP" in (machine.folder / "diagnosis.txt").read_text()


@fault("the guest stops before it has answered an ssh command", "its trial is lost at once, not waited for")
def test_a_guest_that_stops_before_a_command_has_begun_is_lost(classic, ssh_guest, monkeypatch):
    machine, session = ssh_guest(classic)
    ask = paramiko.Channel.exec_command

    def stopped(channel: paramiko.Channel, command: str) -> None:
        machine.qmp.command("stop")
        ask(channel, command)

    monkeypatch.setattr(paramiko.Channel, "exec_command", stopped)
    with pytest.raises(GuestLost, match="was stopped"):
        session.command("true")


@pytest.mark.deep
def test_a_command_that_takes_too_long_is_a_lost_guest_and_its_machine_ends(classic, ssh_guest):
    machine, session = ssh_guest(classic)
    with pytest.raises(GuestLost, match="did not finish 'sleep 100' within 2 s"):
        session.command("sleep 100", timeout_s=2)
    machine.__exit__(None, None, None)
    assert machine.process.poll() is not None


@pytest.mark.deep
def test_a_large_output_does_not_block(classic, ssh_guest):
    _, session = ssh_guest(classic)
    status, out, err = session.command(
        "head -c 3000000 /dev/zero | tr '\\0' x; head -c 300000 /dev/zero | tr '\\0' y >&2; exit 7"
    )
    assert (status, len(out), len(err)) == (7, 3_000_000, 300_000)

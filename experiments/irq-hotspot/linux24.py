# SPDX-License-Identifier: MIT
"""Functions of Linux 2.4 as two kernels of the paper's time have them, for what the paper's third column says.

A function's bytes are those to the next text symbol. `RED_HAT` is the System.map of a build of Red Hat's 2.4.18-14 for
one i686 CPU (github.com/tamuz-o/linux-2.4.18-14custom, commit 38300f1), `LIST` that of 2.4.10 for several, posted to
the linux-kernel list by Bob Matthews on 25 September 2001. Neither is the paper's kernel, which is not known.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """A function's bytes, and the function after it with its bytes."""

    size: int
    following: str
    following_size: int


#: By the paper's spelling of the name.
RED_HAT = {
    "_stext": Place(48, "init", 304),
    "__stext": Place(48, "init", 304),
    "default_idle": Place(64, "poll_idle", 48),
    "system_call": Place(56, "ret_from_sys_call", 17),
    "so_page_fault": Place(1231, ".text.lock.fault", 113),
    "schedule": Place(656, "__wake_up", 112),
    "zap_page_range": Place(128, "lock_kiovec", 256),
    "_rdtsc_delay": Place(32, "__loop_delay", 48),
    "handle_IRQ_event": Place(112, "disable_irq", 96),
    "set_rtc_mmss": Place(384, "timer_interrupt", 288),
    "bust_spinlocks": Place(96, "do_page_fault", 1231),
    "unexpected intr": Place(176, "ide_intr", 320),
}
LIST = {
    "_stext": Place(96, "prepare_namespace", 16),
    "__stext": Place(96, "prepare_namespace", 16),
    "default_idle": Place(64, "poll_idle", 32),
    "system_call": Place(56, "ret_from_sys_call", 17),
    "so_page_fault": Place(1376, "remap_area_pages", 592),
    "schedule": Place(1600, "__wake_up", 192),
    "zap_page_range": Place(976, "follow_page", 192),
    "handle_IRQ_event": Place(144, "disable_irq", 128),
    "set_rtc_mmss": Place(400, "timer_interrupt", 320),
    "bust_spinlocks": Place(96, "do_BUG", 48),
}
#: Where in RED_HAT's functions a tick that was held back is taken: bytes from the function's begin to the interrupted
#: address, by disassembly. After the hlt in default_idle; two instructions after the sti in the others.
TAKEN_AT = {"default_idle": 35, "do_page_fault": 35, "handle_IRQ_event": 48}

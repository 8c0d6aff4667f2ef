# SPDX-License-Identifier: MIT
"""What the plugin must know of a guest's kernel, from its System.map and configuration: a text of a few facts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.errors import UsageError
from harness.measure.symbols import SymbolMap

#: Contexts in the numbering of plugin/oracle.h.
TASK, INTERRUPT, SOFTIRQ, EXCEPTION, NMI, USER = range(6)
CONTEXTS = ("task", "interrupt", "softirq", "exception", "nmi", "user")

#: Vector stubs lie in tables of equal steps (arch/x86/include/asm/idtentry.h, IDT_ALIGN); 8 without IBT.
STUB_BYTES = 8
#: Only task context runs these: an interrupt that comes here has done its work.
TASK_ONLY = ("schedule", "__schedule", "preempt_schedule_irq", "exit_to_user_mode_loop", "arch_do_signal_or_restart")
#: arch/x86/lib/retpoline.S: what calls through a register goes by one of these. The plugin takes so many.
THUNK = re.compile(r"__x86_indirect_(?:call_|jump_)?thunk_")
MOST_THUNKS = 64


@dataclass(frozen=True)
class _Isa:
    """By what functions the contexts of an instruction set are told.

    `entries`: where each context is entered, as patterns of whole names, the first that fits. `switch` is the first
    function that a task runs on its own stack when it comes back, `fork` one that only a new task runs, behind it.
    """

    entries: tuple[tuple[int, str], ...]
    switch: tuple[str, ...]
    fork: tuple[str, ...]


X86 = _Isa(
    entries=(
        (TASK, "entry_SYSENTER_32|entry_INT80_32|entry_SYSCALL_64|entry_(SYSENTER|SYSCALL|INT80)_compat"),
        (NMI, "asm_exc_nmi"),
        (INTERRUPT, "asm_sysvec_.*"),
        (EXCEPTION, "asm_exc_.*"),
    ),
    switch=("__switch_to",),
    fork=("ret_from_fork_asm", "ret_from_fork"),
)
#: arch/arm64/kernel/entry.S and entry-common.c. System calls and faults of user space come by one vector; what is no
#: system call goes on in a function of its own.
ARM64 = _Isa(
    entries=(
        (TASK, "el0t_64_sync"),
        (INTERRUPT, "el[01][th]_64_(irq|fiq)"),
        (NMI, "el[01][th]_64_error"),
        (EXCEPTION, "el1h_64_sync|el0_(da|ia|fpsimd_acc|sve_acc|fpsimd_exc|sys|pc|sp|undef|bti|inv|dbg|fpac)"),
    ),
    # Not __switch_to: it changes stacks in its middle.
    switch=("finish_task_switch", "finish_task_switch.isra.0", "finish_task_switch.constprop.0"),
    fork=("calculate_sigpending",),
)


def describe_places(symbols: SymbolMap, config: str, locks: Sequence[str] = ()) -> str:
    """The plugin's `places` file for a kernel: functions, entry points, address split (plugin/main.c reads it).

    `config` is the kernel's .config. UsageError when a lock's symbol is not in the map, or the map lacks what the
    contexts are told by.
    """
    isa = ARM64 if _set(config, "ARM64") else X86
    lines = [f"function {address:x}" for address in symbols.address.tolist()]
    lines.append(f"text {symbols.etext:x} {_kernel_start(symbols, config):x}")
    names = {str(name): int(address) for name, address in zip(symbols.alias_name, symbols.alias_address, strict=True)}

    def need(*choices: str) -> int:
        for name in choices:
            if name in names:
                return names[name]
        raise UsageError(f"the kernel has no {choices[0]}; the oracle needs it", where=symbols.path)

    step = STUB_BYTES * (2 if _set(config, "X86_KERNEL_IBT") else 1)
    for table in ("irq_entries_start", "spurious_entries_start"):
        if table in names:
            low = names[table]
            lines.append(f"entry {INTERRUPT:x} {low:x} {_next_address(symbols, low):x} {step:x}")
    for name, address in sorted(names.items(), key=lambda item: item[1]):
        context = next((context for context, pattern in isa.entries if re.fullmatch(pattern, name)), None)
        if context is not None:
            lines.append(f"entry {context:x} {address:x} {address + 1:x} 1")
    # From 6.12 on this is where a kernel for i386 ends, and so no symbol within it.
    entry_end = names.get("__entry_text_end", symbols.etext)
    lines.append(f"returns {need('__entry_text_start'):x} {entry_end:x}")
    softirq = need("handle_softirqs", "__do_softirq")
    lines.append(f"softirq {softirq:x} {_next_address(symbols, softirq):x}")
    lines += [f"task {names[name]:x}" for name in TASK_ONLY if name in names]
    lines.append(f"switch {need(*isa.switch):x}")
    lines.append(f"fork {need(*isa.fork):x}")
    if "wake_up_new_task" in names:
        lines.append(f"wake {names['wake_up_new_task']:x}")
    thunks = sorted({address for name, address in names.items() if THUNK.match(name)})
    lines += [f"thunk {low:x} {_next_address(symbols, low):x}" for low in thunks[:MOST_THUNKS]]
    lines.append(f"exec {need('begin_new_exec'):x} {need('setup_new_exec'):x}")
    lines.append(f"exit {need('do_group_exit'):x} {need('exit_mmap'):x}")
    lines.append(f"stack {0x2000 if symbols.bits == 32 else 0x4000:x}")
    lines.append(f"cr3 {_cr3_mask(config):x}")
    for name in locks:
        found = symbols.find(name)
        if not found.size:
            raise UsageError(f"no function {name} to count locks at", where=symbols.path)
        lines += [f"lock {int(address):x}" for address in symbols.address[found]]
    return "\n".join(lines) + "\n"


def _next_address(symbols: SymbolMap, address: int) -> int:
    after = int(np.searchsorted(symbols.address, np.uint64(address), side="right"))
    return int(symbols.address[after]) if after < len(symbols) else symbols.etext


def _set(config: str, option: str) -> bool:
    return re.search(rf"^CONFIG_{option}=y$", config, re.MULTILINE) is not None


def _kernel_start(symbols: SymbolMap, config: str) -> int:
    if symbols.bits == 64:
        return 0xFFFF000000000000 if _set(config, "ARM64") else 0xFFFF800000000000
    found = re.search(r"^CONFIG_PAGE_OFFSET=(0x[0-9a-fA-F]+)$", config, re.MULTILINE)
    return int(found[1], 16) if found else 0xC0000000


def _cr3_mask(config: str) -> int:
    """The bits of CR3, or of arm64's TTBR0_EL1, that name an address space.

    Of the latter all but the ASID, which a process may change, and CnP. The low bits of CR3 are flags or the PCID; with
    page-table isolation the user's table lies one page above the kernel's.
    """
    if _set(config, "ARM64"):
        return 0x0000FFFFFFFFFFFE
    if _set(config, "X86_PAE"):
        return 0xFFFFFFE0
    return 0x7FFFFFFFFFFFE000 if _set(config, "PAGE_TABLE_ISOLATION") else 0x7FFFFFFFFFFFF000

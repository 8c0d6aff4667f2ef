# SPDX-License-Identifier: MIT
"""Members of structs by offset: the compiler says where each lies, and its debug information has to lead back there."""

from __future__ import annotations

from pathlib import Path

import pytest
from experiments.lock_trace.locks.classes import StaticData
from experiments.lock_trace.locks.members import Members
from experiments.lock_trace.locks.percpu import per_cpu_names, unit_of

from harness.errors import RunError
from tests.compiling import run

SOURCE = """\
#include <stddef.h>
typedef struct qspinlock { int val; } arch_spinlock_t;
typedef struct raw_spinlock { arch_spinlock_t raw_lock; } raw_spinlock_t;
typedef struct spinlock { union { struct raw_spinlock rlock; }; } spinlock_t;
typedef struct { int raw; } rwlock_t;
struct mutex { long owner; raw_spinlock_t wait_lock; };
struct ww_mutex { struct mutex base; };
struct inner { char pad[3]; spinlock_t lock; };
struct small { char c; rwlock_t each[3]; };
struct object {
	spinlock_t first;
	int plain;
	union { long number; struct mutex held; };
	const struct inner grid[2][3];
	struct { struct small *pointer; struct small two[2]; };
	volatile struct ww_mutex last;
	unsigned bits : 3;
	char tail[];
};
struct object *slab__big_cache;
struct object *variable__whole;
struct small *made_by__alloc_small;
spinlock_t *variable__alone;
#define AT(text, member) { text, offsetof(struct object, member) }
const struct { char text[40]; long at; } table[] = {
	AT("first", first), AT("plain", plain), AT("held", held), AT("held.wait_lock", held.wait_lock),
	AT("grid[0][1].lock", grid[0][1].lock), AT("grid[1][2].lock", grid[1][2].lock), AT("pointer", pointer),
	AT("two[1].each[2]", two[1].each[2]), AT("last.base", last.base), AT("last.base.wait_lock", last.base.wait_lock),
};
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("members")
    (folder / "layouts.c").write_text(SOURCE)
    run("gcc", "-gdwarf-4", "-c", "layouts.c", cwd=folder)
    (folder / "offsets.c").write_text(
        '#include "layouts.c"\n#include <stdio.h>\nint main(void) { for (unsigned i = 0; i < sizeof(table) / '
        'sizeof(*table); i++) printf("%s %#lx\\n", table[i].text, table[i].at); }\n'
    )
    run("gcc", "-o", "offsets", "offsets.c", cwd=folder)
    return folder


@pytest.fixture(scope="module")
def members(compiled: Path) -> Members:
    return Members(compiled / "layouts.o")


def test_each_member_that_is_a_lock_is_named_by_its_path(compiled, members):
    rows = [line.split() for line in run("./offsets", cwd=compiled).splitlines()]
    assert len(rows) == 10
    for path, offset in rows:
        at = "" if offset == "0" else f"+{offset}"
        lock = path not in ("plain", "pointer")
        assert members.name(f"big-cache{at}") == (f"object.{path}" if lock else f"big-cache{at}")
        assert members.name(f"whole{at} (per CPU)") == (f"whole.{path} (per CPU)" if lock else f"whole{at} (per CPU)")


@pytest.mark.parametrize(
    ("lock", "name"),
    [
        ("alloc_small kmalloc-32+0x4", "small.each[0]"),
        ("alloc_small kmalloc-32", "alloc_small kmalloc-32"),
        ("alone", "alone"),
        ("other+0x4", "other+0x4"),
        ("big-cache+0x1000", "big-cache+0x1000"),
        ("whole+0x4 [module]", "whole+0x4 [module]"),
        ("(stack)", "(stack)"),
        ("0xffffffff81000000", "0xffffffff81000000"),
    ],
)
def test_what_is_no_known_lock_stays_as_it_is(members, lock, name):
    assert members.name(lock) == name


def test_a_file_without_debug_information_is_refused(compiled, tmp_path):
    run("gcc", "-c", "-o", str(tmp_path / "plain.o"), "layouts.c", cwd=compiled)
    with pytest.raises(RunError, match="has no debug information"):
        Members(tmp_path / "plain.o")
    (tmp_path / "text").write_text("no ELF")
    with pytest.raises(RunError, match="cannot be read"):
        Members(tmp_path / "text")


SAID = "<6>[    0.000000] percpu: Embedded 56 pages/cpu s192512 r8192 d28672 u1048576\n"


def test_per_cpu_locks_are_named_by_their_variable(tmp_path):
    (tmp_path / "System.map").write_text(
        "0000000000000000 D __per_cpu_start\n000000000001bb80 d timer_bases\n000000000002a280 D runqueues\n"
        "000000000002b468 D __per_cpu_end\nffffffff81000000 T _stext\n"
    )
    data = StaticData(tmp_path / "System.map")
    unit = unit_of(SAID)
    assert unit == 1 << 20
    classes = {
        0xFFFF88803D82A280: "(percpu)",
        0xFFFF88803D92A280: "(percpu)",
        0xFFFF88803D91BB84: "(percpu)",
        0xFFFF88803D92B468: "(percpu)",  # a module's
        0xFFFF88803D92A284: "(stack)",
    }
    named = ["runqueues (per CPU)", "runqueues (per CPU)", "timer_bases+0x4 (per CPU)", "(percpu)", "(stack)"]
    assert list(per_cpu_names(classes, unit, data).values()) == named
    assert per_cpu_names(classes, None, data) == classes


@pytest.mark.parametrize("said", ["", SAID.replace("u1048576", "u1056768"), SAID.replace("u1048576", "u0")])
def test_units_that_do_not_follow_the_rule_name_nothing(said):
    assert unit_of(said) is None

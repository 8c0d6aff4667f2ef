# SPDX-License-Identifier: MIT
"""What runs in guests, as far as it needs none: scripts parse, programs compile without a warning."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.image.programs import (
    CFLAGS,
    LINK_FLAGS,
    build_programs,
    c_files,
    include_folders,
    library_folders,
    module_sources,
    program_sources,
    source_files,
)
from harness.kernel.arch import ARCHES
from harness.paths import EXPERIMENTS, IMAGES, ROOT
from harness.trial.prepare import guest_folders
from tests.compiling import start
from tests.conftest import needs_guest_packages

FOLDERS = [IMAGES / "guest", *sorted(EXPERIMENTS.glob("*/guest*"))]
SCRIPTS = [IMAGES / "init", *(path for folder in FOLDERS for path in sorted(folder.rglob("*.sh")))]
PROGRAMS = [path for path in program_sources(FOLDERS).values() if path.suffix != ".sh"]
#: Each C file with the program or library that it is of.
C_FILES = {
    file: source
    for source in (*PROGRAMS, *(folder / "lib" for folder in FOLDERS if (folder / "lib").is_dir()))
    for file in (c_files(source) if source.is_dir() else [source])
}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_scripts_parse():
    for path in SCRIPTS:
        done = subprocess.run(["sh", "-n", path], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), path
        assert path.read_text().startswith("#!/bin/sh\n"), path


@pytest.mark.parametrize("arch", [name for name, arch in ARCHES.items() if not arch.cross])
@needs_guest_packages
def test_programs_compile_without_a_warning(arch, tmp_path):
    def compiler(file: Path, source: Path) -> subprocess.Popen[str]:
        include = [f"-I{folder}" for folder in include_folders(source)]
        out = tmp_path / f"{source.name}-{file.stem}.o"
        command = ["gcc", *CFLAGS, *ARCHES[arch].flags, *include, "-c", file, "-o", out]
        return start(*command, stderr=subprocess.PIPE)

    assert C_FILES
    running = {file: compiler(file, source) for file, source in C_FILES.items()}
    said = {name(path): gcc.communicate()[1] for path, gcc in running.items()}
    if arch == "i386":
        said = {path: text for path, text in said.items() if "#error this program is for " not in text}
        assert said
    assert {path: text for path, text in said.items() if text} == {}
    assert all(gcc.returncode == 0 for path, gcc in running.items() if name(path) in said)
    assert {"-Wall", "-Wextra", "-Werror", "-static"} <= set(CFLAGS)
    assert "-lm" in LINK_FLAGS


@pytest.fixture
def guest(tmp_path: Path) -> Path:
    folder = tmp_path / "guest"
    folder.mkdir()
    (folder / "tool.sh").write_text("#!/bin/sh\necho tool\n")
    (folder / "answer.c").write_text('#include "answer.h"\nint main(void)\n{\n\treturn ANSWER;\n}\n')
    (folder / "answer.h").write_text("#define ANSWER 42\n")
    return folder


def test_two_sources_of_one_program_are_refused(guest, tmp_path):
    (guest / "answer.sh").touch()
    with pytest.raises(UsageError, match="guest program answer has two sources"):
        program_sources([guest])
    (guest / "answer.sh").rename(guest / "krepro-job.sh")
    with pytest.raises(UsageError, match="guest program krepro-job has two sources"):
        program_sources([IMAGES / "guest", guest])


def test_a_kernels_own_programs_are_in_no_other_kernels_guests(guest):
    own = guest.parent / "guest-classic"
    own.mkdir()
    (own / "more.sh").touch()
    assert list(program_sources(guest_folders(guest.parent, "classic"))) == ["answer", "tool", "more"]
    assert guest_folders(guest.parent, "modern-6.1") == (guest,)
    assert guest_folders(own, "classic") == ()


@pytest.fixture
def parts(guest: Path) -> Path:
    """A program of two C files, which with another one uses the library of its guest folder."""
    for name in ("lib", "sum"):
        (guest / name).mkdir()
    (guest / "lib/one.h").write_text("int one(void);\n")
    (guest / "lib/one.c").write_text('#include "one.h"\nint one(void)\n{\n\treturn 1;\n}\n')
    (guest / "sum/two.h").write_text("int two(void);\n")
    (guest / "sum/two.c").write_text('#include "one.h"\n#include "two.h"\nint two(void)\n{\n\treturn one() + 1;\n}\n')
    text = '#include "answer.h"\n#include "krepro.h"\n#include "two.h"\nint main(void)\n{\n\tif (two() != 2)\n'
    (guest / "sum/main.c").write_text(f'{text}\t\tdie("two is none");\n\treturn ANSWER + two();\n}}\n')
    return guest


@needs_guest_packages
def test_a_folder_is_a_program_of_several_files_and_lib_a_library(parts, tmp_path):
    sources = program_sources([parts])
    assert sources == {"answer": parts / "answer.c", "sum": parts / "sum", "tool": parts / "tool.sh"}
    assert library_folders(parts / "sum") == [parts / "lib", IMAGES / "guest/lib"]
    build_programs("x86_64", sources, tmp_path / "bin", tmp_path / "log")
    assert subprocess.run([tmp_path / "bin/sum"], check=False).returncode == 44
    assert subprocess.run([tmp_path / "bin/answer"], check=False).returncode == 42
    assert subprocess.run([tmp_path / "bin/tool"], capture_output=True, check=False).stdout == b"tool\n"
    assert sorted(path.name for path in (tmp_path / "bin").iterdir()) == ["answer", "sum", "tool"]
    assert not list(tmp_path.glob(".objects*"))
    first = {name: (tmp_path / "bin" / name).read_bytes() for name in ("answer", "sum")}
    assert not [name for name, data in first.items() if str(parts).encode() in data]
    moved = tmp_path / "elsewhere"
    parts.rename(moved)
    build_programs("x86_64", program_sources([moved]), tmp_path / "bin", tmp_path / "log")
    assert first == {name: (tmp_path / "bin" / name).read_bytes() for name in first}, "nor does where it lies now"


@pytest.mark.parametrize(
    ("file", "where", "text", "says"),
    [
        (
            "answer.c",
            "answer.c",
            "int main(void)\n{\n\treturn none;\n}\n",
            r"answer\.c:3:\d+: error: .none. undeclared",
        ),
        ("answer.c", "answer.c", "int main(void)\n{\n\tint one;\n}\n", r"answer\.c:3:\d+: error: unused variable"),
        ("answer.c", "answer.c", "int nothing;\n", "undefined reference to .main"),
        ("sum/two.c", "sum/two.c", "int two(void)\n{\n\treturn nothing;\n}\n", r"two\.c:3:\d+: error: .nothing."),
        ("lib/one.c", "lib/one.c", "int one;\nint one(void);\n", r"one\.c:2:\d+: error: "),
        ("sum/two.h", "sum/two.c", "int two(int);\n", r"two\.c:3:\d+: error: conflicting types for .two"),
        ("sum/two.c", "sum", "int three;\n", "undefined reference to .two"),
    ],
)
@needs_guest_packages
def test_what_does_not_compile_is_the_users_error_with_file_and_line(parts, tmp_path, file, where, text, says):
    (parts / file).write_text(text)
    if file == "sum/two.h":
        (parts / "sum/main.c").unlink()
    with pytest.raises(UsageError, match=f"^{parts}/{where}: compiling {Path(where).name} failed: .*{says}"):
        build_programs("x86_64", program_sources([parts]), tmp_path / "bin", tmp_path / "log")


def test_unknown_combinations_are_refused(parts):
    (parts / "sum.c").touch()
    with pytest.raises(UsageError, match=f"^{parts}/sum, {parts}/sum.c: guest program sum has two sources$"):
        program_sources([parts])
    (parts / "sum.c").unlink()
    (parts / "headers").mkdir()
    (parts / "headers/some.h").touch()
    with pytest.raises(UsageError, match=rf"^{parts}/headers: guest program headers has no \.c file \(.*lib/\)$"):
        program_sources([parts])


def test_modules_are_folders_with_a_kbuild_file(guest):
    for folder, file in (("one", "Kbuild"), ("two", "Makefile"), ("three", "readme")):
        (guest / "modules" / folder).mkdir(parents=True)
        (guest / "modules" / folder / file).touch()
    assert [path.name for path in module_sources([guest])] == ["one", "two"]
    assert guest / "modules/three/readme" in source_files([guest])

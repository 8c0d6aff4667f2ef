# SPDX-License-Identifier: MIT
"""`trace` before anything boots: what goes into the guest with a program, and what is refused in one line."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from harness.artefacts.store import Store
from harness.commands.profile import ProfileOptions, profile
from harness.errors import RunError, UsageError
from harness.measure.tracer import Traced, TracerFile, tracing_experiments
from harness.paths import EXPERIMENTS
from harness.program.files import MOST_UNOPENED, GuestFiles
from harness.program.firstrun import Use, files_found
from harness.program.guestrun import watching
from harness.program.insideguest import command
from harness.program.subject import TraceRequest
from harness.program.tracing import free_folder, tell, trace_program
from tests.compiling import run
from tests.conftest import needs_guest_packages
from tests.processes import eventually

C = "int main(void) { return 0; }"


@pytest.fixture
def here(tmp_path, monkeypatch):
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    return folder


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


@pytest.fixture
def things(tmp_path):
    return GuestFiles(tmp_path / "root", "x86_64")


def compiled(path: Path, *flags: str) -> Path:
    run("gcc", "-x", "c", "-", "-x", "none", "-o", path, *flags, text=C)
    return path


def inside(things: GuestFiles, path: Path) -> Path:
    return things.root / str(path).lstrip("/")


@needs_guest_packages
def linked(things, place, goal):
    link = things.root / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(goal)


def test_nothing_is_written_through_links_of_the_root(things, tmp_path):
    """A root has links that lead to files of this host, as a user's own has: these stay as they are."""
    host, brought = tmp_path / "host", tmp_path / "brought"
    (host / "folder").mkdir(parents=True)
    (host / "file").write_text("the host's")
    (brought / "folder").mkdir(parents=True)
    for name in ("one", "two", "folder/three"):
        (brought / name).write_text("brought")
    at = str(brought).lstrip("/")
    linked(things, f"{at}/one", host / "file")
    linked(things, f"{at}/folder", host / "folder")
    things.bring(brought)
    things.bring(brought / "one")
    assert (host / "file").read_text() == "the host's"
    assert list((host / "folder").iterdir()) == []
    assert (things.root / at / "folder/three").read_text() == "brought"
    # A folder on the way: it is the root's own that is meant.
    linked(things, "elsewhere", "/inner")
    (things.root / "inner").mkdir()
    (things.root / "etc").rmdir()
    linked(things, "etc", "/inner")
    things.finish(tmp_path)
    assert (things.root / "inner/passwd").is_file()
    linked(things, "circle", "/circle")
    with pytest.raises(UsageError, match="in a circle"):
        things.bring(Path("/circle/file"))


def test_a_folder_that_was_listed_can_be_brought(things, tmp_path):
    """Its links are there by then, absolute ones too: each led to the file that was to be copied."""
    folder = tmp_path / "listed"
    folder.mkdir()
    (tmp_path / "file").write_text("its own")
    (folder / "link").symlink_to(tmp_path / "file")
    things.found({folder: Use.LISTED})
    things.bring(folder)
    assert (things.root / str(folder).lstrip("/") / "link").read_text() == "its own"


def test_a_program_goes_where_it_is_with_its_loader_and_libraries(here, things):
    program = compiled(here / "mine", "-Wl,--no-as-needed", "-lm")
    assert things.program("./mine", here) == "./mine"
    assert inside(things, program).stat().st_mode & 0o777 == 0o755
    libraries = {path.name for path in things.root.rglob("*.so*")}
    assert libraries == {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}


@needs_guest_packages
def test_a_static_program_goes_alone(here, things):
    compiled(here / "mine", "-static")
    things.program("./mine", here)
    assert [path.name for path in things.root.rglob("*") if path.is_file()] == ["mine"]


@needs_guest_packages
def test_a_library_that_is_nowhere_is_named(here, things):
    run("gcc", "-x", "c", "-", "-shared", "-o", here / "libgone.so", text="int gone;")
    compiled(here / "mine", "-Wl,--no-as-needed", str(here / "libgone.so"))
    (here / "libgone.so").unlink()
    with pytest.raises(UsageError, match=r"mine: neither this host nor a package has the library .*libgone"):
        things.program("./mine", here)


def test_a_script_brings_its_interpreter(here, things):
    (here / "job").write_text("#!/bin/sh -e\necho\n")
    (here / "job").chmod(0o755)
    things.program("./job", here)
    assert (things.root / "bin/sh").is_file()
    (here / "job").write_text("#!/no/such/shell\n")
    with pytest.raises(UsageError, match="its interpreter /no/such/shell is not here"):
        things.program("./job", here)


@pytest.mark.parametrize(
    ("text", "mode", "message"),
    [
        ("plain text", 0o755, "is no program: neither ELF nor a script"),
        ("#!/bin/sh\n", 0o644, "is not executable"),
        ("", 0o755, "is no program"),
    ],
)
def test_what_is_no_program_is_refused(here, things, text, mode, message):
    (here / "mine").write_text(text)
    (here / "mine").chmod(mode)
    with pytest.raises(UsageError, match=message):
        things.program("./mine", here)


def test_a_program_of_another_machine_is_refused(here, things):
    header = bytearray(64)
    header[:8] = b"\x7fELF\x02\x01\x01\x00"
    header[16:20] = bytes([2, 0, 183, 0])  # EM_AARCH64
    header[20:24], header[52:54] = bytes([1, 0, 0, 0]), bytes([64, 0])
    (here / "mine").write_bytes(bytes(header))
    (here / "mine").chmod(0o755)
    with pytest.raises(UsageError, match="is a program for EM_AARCH64, and the kernel's is EM_X86_64"):
        things.program("./mine", here)


@pytest.mark.parametrize("word", ["./absent", "no-such-program-anywhere"])
def test_a_program_that_is_not_there_is_refused(here, things, word):
    with pytest.raises(UsageError, match=r"is not there|no program called"):
        things.program(word, here)


def test_a_folder_is_no_program(here, things):
    (here / "folder").mkdir()
    with pytest.raises(UsageError, match="is a folder, not a program"):
        things.program("./folder", here)


def test_files_among_the_arguments_go_in_and_other_words_do_not(here, things):
    (here / "data").mkdir()
    (here / "data/deep").write_text("x")
    (here / "in.txt").write_text("in")
    (here / "other").write_text("other")
    words = ["-n", "in.txt", "--file=data", "x" * 5000, "", ".", "..", "/", "/proc/self/maps", str(here / "in.txt")]
    things.arguments(words, here)
    files = sorted(
        path.relative_to(inside(things, here)).as_posix() for path in things.root.rglob("*") if path.is_file()
    )
    assert files == ["data/deep", "in.txt"]


def test_the_folder_is_there_and_root_has_a_name(here, things):
    things.finish(here)
    assert inside(things, here).is_dir()
    assert (things.root / "etc/passwd").read_text().startswith("root:")


def test_files_that_a_program_used_keep_their_times_and_links(here, things):
    (here / "real").write_text("x")
    os.utime(here / "real", (1, 1_600_000_000))
    (here / "link").symlink_to("real")
    (here / "large").write_bytes(bytes(MOST_UNOPENED + 1))
    (here / "folder").mkdir()
    for name in ("used", "unused"):
        (here / "folder" / name).write_text(name)
    uses = {here / "link": Use.OPENED, here / "large": Use.ASKED, here / "folder": Use.LISTED}
    things.found({**uses, here / "folder/used": Use.OPENED, here / "gone": Use.ASKED})
    root = inside(things, here)
    assert (root / "link").readlink() == Path("real")
    assert things.times[str((root / "real").relative_to(things.root))] == 1_600_000_000
    assert (root / "large").stat().st_size == 0
    assert {path.name: path.read_text() for path in (root / "folder").iterdir()} == {"used": "used", "unused": ""}
    assert things.notes == ["files that it uses here: 2, 1 MiB"]


def test_what_in_names_is_told_apart(here, things, store):
    (here / "data").write_text("x")
    run("cp", "/bin/true", here / "mine")
    for folder in ("root/etc", "root/bin"):
        (here / folder).mkdir(parents=True)
    (here / "root/bin/theirs").symlink_to("/bin/nowhere")
    things.take(store, ["./data", "mine", "root", "env"], here)
    assert inside(things, here / "data").read_text() == "x"
    assert inside(things, here / "mine").stat().st_mode & 0o111
    assert (things.root / "usr/bin/env").is_file()
    assert things.program("theirs", here) == "/bin/theirs"
    for name in ("./absent", "nothing-of-this-name"):
        with pytest.raises(UsageError, match=f"--in {name}: neither a package, a program, nor a file here"):
            things.take(store, [name], here)


def test_a_program_is_run_here_without_a_trace_and_its_files_are_known(here):
    (here / "read").write_text("x")
    (here / "folder").mkdir()
    words = ["/bin/sh", "-c", "cat read >made; rm read; ls folder; test -e asked; nc -l 1; exit 3"]
    (here / "asked").touch()
    found = files_found(words, here, {"PATH": "/usr/bin:/bin"}, Path("/dev/null"))
    if found is None:
        pytest.skip("no namespaces here")
    assert found[here / "read"] == Use.OPENED
    assert found[here / "folder"] == Use.LISTED
    assert found[here / "asked"] == Use.ASKED
    assert here / "made" not in found
    assert {path.name for path in here.iterdir()} == {"read", "folder", "asked"}


def test_files_that_are_too_large_are_refused(here, things, monkeypatch):
    monkeypatch.setattr("harness.program.files.MOST_BYTES", 10)
    (here / "large").write_bytes(bytes(11))
    with pytest.raises(UsageError, match="is too large"):
        things.bring(here / "large")


def test_the_files_size_is_counted_in_mebibytes(here, things):
    (here / "large").write_bytes(bytes((1 << 20) + 1))
    things.bring(here / "large")
    assert things.mebibytes == 2


def test_words_reach_the_tracer_as_they_are(tmp_path):
    words = ["./a b", "$HOME", "it's", "*", ""]
    text = command('for word; do echo "<$word>"; done', "/", words, 60)
    # The last line, with a shell of this host in place of the guest's root.
    last = text[text.index("exec /bin/chroot") :]
    (tmp_path / "in").touch()
    last = last.replace("exec /bin/chroot /program /run/krepro/busybox sh", "exec sh").replace(
        "</program/.stdin", f"<{tmp_path}/in"
    )
    assert run("sh", "-c", last) == "".join(f"<{word}>\n" for word in words)


def test_a_report_gets_a_folder_that_is_not_there_yet(here):
    assert free_folder(None, "./sort", "trace") == here / "sort.trace"
    (here / "sort.trace").mkdir()
    assert free_folder(None, "/usr/bin/sort", "trace") == here / "sort.trace.2"
    with pytest.raises(UsageError, match="--out: is there already"):
        free_folder(here / "sort.trace", "sort", "trace")
    with pytest.raises(UsageError, match="its folder is not there"):
        free_folder(here / "no/where", "sort", "trace")


# -- the experiment's part ---------------------------------------------------------------------------------

TRACER = """\
from harness.measure.tracer import Tracer
TRACER = Tracer(kernel="modern-6.1", command='echo "$@"', params={"window": 1})
def traced(program, out):
    return [program.words[0], str(1 / len(program.words[1:]))]
"""


@pytest.fixture
def tracer(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/tracer.py").write_text(TRACER)
    return tmp_path / "mine"


def test_one_experiment_of_the_project_traces_programs():
    (name,) = tracing_experiments(EXPERIMENTS, "pages")
    assert {"window", "follow", "most_bytes"} <= TracerFile(EXPERIMENTS / name).tracer.params.keys()
    (name,) = tracing_experiments(EXPERIMENTS, "locks")
    assert TracerFile(EXPERIMENTS / name).tracer.cpus > 1


def test_options_are_those_that_the_tracer_has(tracer):
    file = TracerFile(tracer)
    assert file.chosen({"window": None, "follow": None}) == {"window": 1}
    assert file.chosen({"window": 4, "follow": None}) == {"window": 4}
    with pytest.raises(UsageError, match="--watch: this tracer has no such option"):
        file.chosen({"window": 4, "watch": 1})


def test_what_goes_wrong_in_a_tracer_names_its_file(tracer, tmp_path):
    program = Traced(tmp_path, tmp_path, tmp_path, ("a", "b"), "/", tmp_path)
    assert TracerFile(tracer).traced(program, tmp_path) == ["a", "1.0"]
    with pytest.raises(RunError, match=r"tracer.py: traced\(\) failed: ZeroDivisionError"):
        TracerFile(tracer).traced(Traced(tmp_path, tmp_path, tmp_path, ("a",), "/", tmp_path), tmp_path)


@pytest.mark.parametrize("text", ["TRACER = 1\ndef traced(program, out): pass\n", TRACER.partition("def")[0]])
def test_a_tracer_without_its_parts_is_refused(tracer, text):
    (tracer / "tracer.py").write_text(text)
    with pytest.raises(UsageError, match="must have TRACER, a Tracer, and a function traced"):
        TracerFile(tracer)


@pytest.mark.parametrize(
    ("program", "experiment", "message"),
    [
        (None, None, "no program to trace"),
        ("'", None, "--exec '"),
        ("true", "irq-hotspot", "has no tracer.py: it traces no programs of others"),
        ("true", "nothing-of-this-name", "nothing-of-this-name"),
    ],
)
def test_what_was_asked_for_wrongly_is_refused_before_anything_is_built(here, tmp_path, program, experiment, message):
    wanted = TraceRequest("pages", program, experiment)
    with pytest.raises(UsageError, match=message):
        trace_program(Store(tmp_path / "store"), wanted, Console(file=io.StringIO()))
    assert not (tmp_path / "store").exists() or not any((tmp_path / "store").iterdir())


WATCHED = """\
def watched(part, before):
    return [f"{part.strip()} after {before and before.strip()}", str(1 / (part != "bad\\n"))]
"""


def test_parts_are_shown_while_the_stream_grows(tracer, tmp_path, capsys):
    (tracer / "tracer.py").write_text((tracer / "tracer.py").read_text() + WATCHED)
    shown, stream = io.StringIO(), tmp_path / "stream"
    with watching(TracerFile(tracer), Console(file=shown), stream):
        stream.write_bytes(b"one\n\ntw")
        assert eventually(lambda: shown.getvalue().count("\n") == 2)
        assert shown.getvalue() == "one after None\n1.0\n"
        with stream.open("ab") as more:
            more.write(b"o\n\n")
    assert shown.getvalue().splitlines()[2:] == ["two after one", "1.0"]
    stream.write_bytes(b"bad\n\nnext\n\n")
    with watching(TracerFile(tracer), Console(file=shown), stream):
        pass
    assert len(shown.getvalue().splitlines()) == 4
    assert "watched() failed: ZeroDivisionError" in " ".join(capsys.readouterr().err.split())


def test_a_time_line_that_was_asked_for_is_told_before_the_page(tmp_path):
    wanted, shown = TraceRequest("pages", "x", to="perfetto"), io.StringIO()
    with pytest.raises(UsageError, match="--to perfetto: this tracer has written none"):
        tell(Console(file=shown), wanted, ["said"], tmp_path, {})
    (tmp_path / "perfetto.json").touch()
    tell(Console(file=shown), wanted, ["said"], tmp_path, {})
    assert shown.getvalue().splitlines() == ["said", str(tmp_path / "perfetto.json"), str(tmp_path / "report.html")]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"below": "1%"}, "--below: needs --against"),
        ({"to": "junit"}, "--to junit: needs --against"),
        ({"against": "true", "exit_code": True}, "--exit-code: not with --against"),
        ({"against": "true", "verbose": True}, "--verbose: not with --against"),
        ({"against": "true", "to": "perfetto"}, "--to perfetto: not with --against"),
        ({"against": "true", "below": "little"}, "--below little: must be per cent, as 1%"),
        ({"against": "no-such-program-anywhere"}, "no program called no-such-program-anywhere on PATH"),
        ({"against": "debian:9.9"}, "has no kernel debian:9.9"),
        ({"against": "debian:6.1-686-pae"}, "is for i386, and the first kernel for x86_64"),
    ],
)
def test_a_comparison_that_cannot_be_is_refused_in_one_line(here, monkeypatch, options, says):
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(UsageError, match=says):
        profile(ProfileOptions(exec="/bin/true", in_=("/bin/true",), **options))
    assert not list(here.iterdir())

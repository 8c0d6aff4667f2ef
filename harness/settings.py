# SPDX-License-Identifier: MIT
"""Settings of this machine: of the environment, else of `~/.config/krepro.toml`, else their defaults.

Standard library only: `inv` asks for them before the virtual environment exists.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from harness.choices import FILE_MIB
from harness.errors import UsageError

Value = str | int | bool


@dataclass(frozen=True)
class Setting:
    """One of them: a key of the file, a variable that wins over it, and what it is without both."""

    key: str
    default: Value
    help: str  #: Markdown, with links as from docs/
    shown: str = ""  #: the default, for people, where it is not a word of its own

    @property
    def variable(self) -> str:
        return f"KREPRO_{self.key.upper()}"


STORE = Setting("store", "", "folder of the store", "`$XDG_CACHE_HOME/krepro`, else `~/.cache/krepro`")
MIRRORS = Setting(
    "mirrors",
    "",
    "folders and URLs that have Debian packages, separated by blanks, asked before the distribution's mirror: see "
    "[tools.md](tools.md)",
    "none",
)
OFFLINE = Setting("offline", False, "fetch no package from the network: only from folders in `mirrors`")
HOST_TOOLS = Setting(
    "host_tools",
    False,
    "use the host's own QEMU and compiler, not those of the [tools tree](tools.md); sets then say so",
)
OUTPUT_MIB = Setting(
    "output_mib",
    0,
    "MiB that each output of a guest may have on the host: console, bulk data, recording, a program's trace. A trial "
    "with more fails, of a trace the rest is counted and left out, of a console the last 64 MiB are kept",
    f"{FILE_MIB}; 1024 for a program's trace",
)
SIGNING_KEY = Setting(
    "signing_key",
    "",
    "the ssh key that `sign` signs with: the private one, or the public one of a key that an agent holds",
    "none",
)
SETTINGS = (STORE, MIRRORS, OFFLINE, HOST_TOOLS, OUTPUT_MIB, SIGNING_KEY)


def path() -> Path:
    """The file, whether it is there or not."""
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(os.path.expanduser(home)) / "krepro.toml"  # noqa: PTH111  (Path's own raises for an unknown user)


def text(setting: Setting) -> str:
    """The value of a text. UsageError as `value`."""
    return str(value(setting)[0])


def switch(setting: Setting) -> bool:
    """The value of a switch. UsageError as `value`."""
    return bool(value(setting)[0])


def number(setting: Setting) -> int:
    """The value of a number, 0 where it is not set. UsageError as `value`."""
    return int(value(setting)[0])


def value(setting: Setting) -> tuple[Value, str]:
    """The value in force, and where it is from. UsageError naming variable, or file and key, where it cannot be one."""
    given = os.environ.get(setting.variable)
    if given:
        return _of_text(setting, given), f"${setting.variable}"
    file = path()
    found = _read(file, _state(file)).get(setting.key)
    return (setting.default, "default") if found is None else (found, str(file))


def check() -> None:
    """UsageError for the first setting that cannot be used."""
    for setting in SETTINGS:
        value(setting)


def _of_text(setting: Setting, given: str) -> Value:
    if isinstance(setting.default, bool):
        return given != "0"
    if isinstance(setting.default, int):
        if not given.isdecimal() or int(given) < 1:
            raise UsageError(f"{setting.variable}={given}: must be a whole number, 1 or more")
        return int(given)
    return given


def _state(file: Path) -> int:
    """What changes when the file does."""
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=8)
def _read(file: Path, _state: int) -> dict[str, Value]:
    try:
        read = tomllib.loads(file.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:  # no TOML, no UTF-8
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"cannot be read: {reason}", where=str(file)) from error
    known = {setting.key: setting for setting in SETTINGS}
    for key, found in read.items():
        if key not in known:
            raise UsageError(f"{key}: is no setting", where=str(file), hint=f"known: {', '.join(known)}")
        kind = type(known[key].default)
        if type(found) is not kind or (isinstance(found, int) and kind is int and found < 1):
            wanted = {bool: "true or false", int: "a whole number, 1 or more", str: "a text"}[kind]
            raise UsageError(f"{key}: must be {wanted}", where=str(file))
    return read

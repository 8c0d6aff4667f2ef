# SPDX-License-Identifier: MIT
"""Errors that a user sees: one line saying what is wrong, where, and what to do about it."""

from __future__ import annotations

import errno
from collections.abc import Sequence

#: Errors of the host that may meet any command, and that no experiment and no trial is to blame for.
HOSTS_ERRORS = frozenset(
    {
        *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO),
        *(errno.EMFILE, errno.ENFILE, errno.ENOMEM),
    }
)
EXIT_OK = 0
EXIT_NEWS = 1
EXIT_USAGE = 2
EXIT_RUN_FAILED = 3


def exit_code(*, failed: bool = False, news: bool = False) -> int:
    """How any command ends that judges: something failed; else a verdict is other than known; else well."""
    return EXIT_RUN_FAILED if failed else EXIT_NEWS if news else EXIT_OK


#: Errors that are told of at once; the others are counted.
MOST_TOLD = 20


class KreproError(Exception):
    """An expected failure; `exit_code` is the process's exit status (docs: README, "Exit codes").

    `also`: others of the same input, which are told of together with it, each in its own line.
    """

    exit_code = EXIT_RUN_FAILED

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        where: str | None = None,
        also: Sequence[KreproError] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.where = where
        self.also = tuple(also)

    @property
    def lines(self) -> list[str]:
        """One line for each of them, for people; what is quoted of several lines is told in one."""
        text = f"{self.where}: {self.message}" if self.where else self.message
        text = f"{text} ({self.hint})" if self.hint else text
        told = [" ".join(text.split("\n")), *(str(error) for error in self.also)]
        more = len(told) - MOST_TOLD
        return told if more <= 0 else [*told[:MOST_TOLD], f"and {more} more"]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only fields are lost by the default protocol when a trial's worker process raises.
        return (_rebuild, (type(self), self.message, self.hint, self.where, self.also))


class UsageError(KreproError):
    """The user's words, files or machine do not allow what was asked for."""

    exit_code = EXIT_USAGE


class RunError(KreproError):
    """What was asked for was started and failed."""

    exit_code = EXIT_RUN_FAILED


def raise_all(errors: Sequence[KreproError]) -> None:
    """Raise the first of them, which tells of the others too; nothing where there is none."""
    if errors:
        first, *others = errors
        raise type(first)(first.message, hint=first.hint, where=first.where, also=others)


def _rebuild(
    cls: type[KreproError], message: str, hint: str | None, where: str | None, also: Sequence[KreproError]
) -> KreproError:
    return cls(message, hint=hint, where=where, also=also)

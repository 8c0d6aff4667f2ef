# SPDX-License-Identifier: MIT
"""Errors that a user sees: one line saying what is wrong, where, and what to do about it."""

from __future__ import annotations

import errno

#: Errors of the host that may meet any command, and that no experiment and no trial is to blame for.
HOSTS_ERRORS = frozenset(
    {
        *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO),
        *(errno.EMFILE, errno.ENFILE, errno.ENOMEM),
    }
)
EXIT_OK = 0
EXIT_CONTRADICTED = 1
EXIT_USAGE = 2
EXIT_RUN_FAILED = 3


class KreproError(Exception):
    """An expected failure; `exit_code` is the process's exit status (docs: README, "Exit codes")."""

    exit_code = EXIT_RUN_FAILED

    def __init__(self, message: str, *, hint: str | None = None, where: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.where = where

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text} ({self.hint})" if self.hint else text

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only fields are lost by the default protocol when a trial's worker process raises.
        return (_rebuild, (type(self), self.message, self.hint, self.where))


class UsageError(KreproError):
    """The user's words, files or machine do not allow what was asked for."""

    exit_code = EXIT_USAGE


class RunError(KreproError):
    """What was asked for was started and failed."""

    exit_code = EXIT_RUN_FAILED


def _rebuild(cls: type[KreproError], message: str, hint: str | None, where: str | None) -> KreproError:
    return cls(message, hint=hint, where=where)

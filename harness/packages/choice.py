# SPDX-License-Identifier: MIT
"""Files of Debian packages, as users choose them."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from harness.yamlfile import Strict, about


def _plain_path(path: str) -> str:
    if {".", ".."}.intersection(path.split("/")):
        raise ValueError("must not have . or .. as a part")
    return path


Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=64)]
#: Of a spec, or `debian:` and one of Debian's own builds. No path: a set's manifest names kernels too.
KernelName = Annotated[str, StringConstraints(pattern=r"^(debian:)?[a-z0-9][a-z0-9._+~-]*$", max_length=96)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
#: A file from the guest's root on; what an initramfs of ours can carry, and no way out of the root.
GuestFile = Annotated[
    str, StringConstraints(pattern=r"^[\w+@%,:=\[.-]+(/[\w+@%,:=\[.-]+)*$"), AfterValidator(_plain_path)
]


class Package(Strict):
    """Some files of a Debian package, without its dependencies."""

    name: Annotated[Name, about("the package's")]
    files: Annotated[tuple[GuestFile, ...], about("from the guest's root on")] = Field(min_length=1)

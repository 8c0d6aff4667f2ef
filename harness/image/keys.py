# SPDX-License-Identifier: MIT
"""ssh keys of an image: a host key that the harness pins and a key pair for logging in.

They travel in a second, tiny initramfs that only ssh machines load; the image itself stays reproducible.
"""

from __future__ import annotations

import base64
import struct
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from harness.artefacts.store import Artefact, Store
from harness.image.cpio import write_cpio

ALGORITHM = b"ssh-ed25519"


def image_keys(store: Store, image: Artefact) -> Artefact:
    """Keys of `image`: `keys.cpio` for the guest, `client` (private, OpenSSH) and `host.pub` for the harness."""

    def build(folder: Path) -> None:
        host, client = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
        with store.scratch("keys") as root:
            (root / "etc/dropbear").mkdir(parents=True)
            (root / "root/.ssh").mkdir(parents=True)
            (root / "etc/dropbear/host_key").write_bytes(_dropbear_private(host))
            (root / "root/.ssh/authorized_keys").write_text(_public_line(client) + "\n")
            write_cpio(root, folder / "keys.cpio")
        (folder / "host.pub").write_text(_public_line(host) + "\n")
        (folder / "client").touch(mode=0o600)
        (folder / "client").write_bytes(
            client.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
            )
        )

    return store.obtain("keys", image.key[:12], {"image": image.key}, build)


def _string(value: bytes) -> bytes:
    return struct.pack(">I", len(value)) + value


def _raw_public(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def _raw_private(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(serialization.Encoding.Raw, serialization.PrivateFormat.Raw, serialization.NoEncryption())


def _dropbear_private(key: Ed25519PrivateKey) -> bytes:
    """Dropbear's own key file: the algorithm's name, then seed and public key as one string (ed25519.c)."""
    return _string(ALGORITHM) + _string(_raw_private(key) + _raw_public(key))


def _public_line(key: Ed25519PrivateKey) -> str:
    blob = _string(ALGORITHM) + _string(_raw_public(key))
    return f"{ALGORITHM.decode()} {base64.b64encode(blob).decode()} krepro"

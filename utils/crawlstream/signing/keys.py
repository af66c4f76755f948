"""Keys that requests are signed with: Ed25519, in PKCS#8 files that only their owner can read.

A key is named by its thumbprint (RFC 7638, RFC 8037). Only that appears in logs and errors.
"""

from __future__ import annotations

import os
import stat
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from crawlstream.errors import ConfigError

_EXAMPLE_OF_RFC_9421 = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"
"""Its private half is printed in the RFC."""
_OTHERS = stat.S_IROTH | stat.S_IWOTH


class Key:
    """A private key, shown as its thumbprint."""

    __slots__ = ("_private", "keyid", "x")

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        raw = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.x = text_of(raw)
        """The public key, in base64url."""
        self.keyid = thumbprint(self.x)

    def __repr__(self) -> str:
        return f"Key({self.keyid})"

    def sign(self, data: bytes) -> bytes:
        """Return the signature of some bytes: 64 bytes."""
        return self._private.sign(data)


def thumbprint(x: str) -> str:
    """Return the name of a public key: SHA-256 over its canonical JWK, in base64url."""
    return text_of(sha256(f'{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}'.encode()).digest())


def text_of(data: bytes) -> str:
    """Return bytes in base64url without padding."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def load_keys(paths: Sequence[str]) -> Sequence[Key]:
    """Read keys from files; ConfigError if one is missing, public, or none of Ed25519."""
    keys = [_load(path) for path in paths]
    if len({key.keyid for key in keys}) < len(keys):
        raise ConfigError("CRAWLSTREAM_SIGNING_KEYS names a key twice")
    return keys


def _load(path: str) -> Key:
    try:
        mode, data = Path(path).stat().st_mode, Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read the signing key {path}: {error.strerror}") from error
    if mode & _OTHERS:
        raise ConfigError(f"other users can read the signing key {path}: chmod 600 {path}")
    try:
        private = load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ConfigError(
            f"{path} is not an unencrypted private key in PEM: `crawlstream signing new FILE` makes"
            " one"
        ) from None
    if not isinstance(private, Ed25519PrivateKey):
        raise ConfigError(f"{path} is not an Ed25519 key: `crawlstream signing new FILE` makes one")
    key = Key(private)
    if key.keyid == _EXAMPLE_OF_RFC_9421:
        raise ConfigError(f"{path} is the example of RFC 9421, which everybody has: make another")
    return key


def new_key(path: Path) -> Key:
    """Write a new key to a file, readable by its owner only; ConfigError if the file exists."""
    private = Ed25519PrivateKey.generate()
    data = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ConfigError(
            f"{path} exists: a key is never overwritten; choose another name"
        ) from None
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return Key(private)

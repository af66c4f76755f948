"""Keys: named by their thumbprint, kept from other users, and never shown."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from crawlstream.errors import ConfigError
from crawlstream.signing.keys import load_keys, new_key, thumbprint

X_OF_RFC_9421 = "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"
D_OF_RFC_9421 = bytes.fromhex("9f8362f87a484a954e6e740c5b4c0e84229139a20aa8ab56ff66586f6a7d29c5")


def test_a_key_is_named_by_its_thumbprint() -> None:
    """Names a key by its thumbprint, like the example of RFC 9421."""
    assert thumbprint(X_OF_RFC_9421) == "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"


def test_a_new_key_is_read_again(tmp_path: Path) -> None:
    """Reads a new key back; only its owner can read the file, and only the thumbprint is shown."""
    path = tmp_path / "a.pem"
    made = new_key(path)
    (read,) = load_keys([str(path)])
    assert read.keyid == made.keyid == thumbprint(made.x)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert repr(read) == f"Key({made.keyid})"


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    """A file that exists is left as it is."""
    path = tmp_path / "a.pem"
    path.write_text("precious")
    with pytest.raises(ConfigError, match="exists"):
        new_key(path)
    assert path.read_text() == "precious"


def _pem(key: object, password: bytes | None = None) -> bytes:
    wrapping = BestAvailableEncryption(password) if password else NoEncryption()
    data: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, wrapping)  # type: ignore[attr-defined]
    return data


BAD = {
    "none": (b"", "not an unencrypted private key"),
    "text": (b"hello", "not an unencrypted private key"),
    "with a password": (
        _pem(Ed25519PrivateKey.generate(), b"pw"),
        "not an unencrypted private key",
    ),
    "of RSA": (_pem(generate_private_key(65537, 2048)), "not an Ed25519 key"),
    "of the RFC": (
        _pem(Ed25519PrivateKey.from_private_bytes(D_OF_RFC_9421)),
        "example of RFC 9421",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_wrong_key_is_refused(name: str, tmp_path: Path) -> None:
    """The error names the file and says what is wrong."""
    data, words = BAD[name]
    path = tmp_path / "a.pem"
    path.write_bytes(data)
    path.chmod(0o400)
    with pytest.raises(ConfigError, match=words) as caught:
        load_keys([str(path)])
    assert str(path) in str(caught.value)


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    """The error says which command mends it; a group may read, as a mounted secret's does."""
    path = tmp_path / "a.pem"
    new_key(path)
    path.chmod(0o440)
    assert load_keys([str(path)])
    path.chmod(0o444)
    with pytest.raises(ConfigError, match=f"chmod 600 {path}"):
        load_keys([str(path)])


def test_a_missing_or_repeated_key_is_refused(tmp_path: Path) -> None:
    """Rejects a missing or repeated key, instead of sending unsigned requests."""
    path = tmp_path / "a.pem"
    with pytest.raises(ConfigError, match="cannot read the signing key"):
        load_keys([str(path)])
    new_key(path)
    with pytest.raises(ConfigError, match="twice"):
        load_keys([str(path), str(path)])

"""The directory: the public keys of a cluster, where verifiers look them up.

It is signed by each of its keys, beforehand and for weeks, and kept as one file. So what serves it
needs no private key. The file also has the times by which keys are rotated, which are not served.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawlstream.errors import ConfigError
from crawlstream.signing.signer import authority_of
from crawlstream.wire.jsontext import dumps, loads

if TYPE_CHECKING:
    from crawlstream.signing.keys import Key

MEDIA_TYPE = "application/http-message-signatures-directory+json"
TAG = "http-message-signatures-directory"
MAX_AGE_S = 86_400
"""Seconds for which verifiers may keep a copy."""


@dataclass(frozen=True, slots=True)
class Times:
    """When a key was first published, and when it became the one that signs (0: it is not)."""

    published: int
    signs_since: int = 0


@dataclass(frozen=True, slots=True)
class Directory:
    """The published keys, and the headers that go with them."""

    body: str
    headers: Mapping[str, str]
    expires: int
    """When its signatures end, in seconds since 1970."""
    times: Mapping[str, Times] = field(default_factory=dict)
    """By keyid."""


def made(
    keys: Sequence[Key], agent: str, *, now: int, days: int, before: Directory | None = None
) -> Directory:
    """Make the directory of some keys, the first of which signs requests.

    ``agent`` is the origin that serves it; ``before`` the directory that this one replaces.
    """
    body = dumps({"keys": [_jwk(key) for key in keys]}).decode()
    expires = now + days * 86_400
    digest = f"sha-256=:{b64encode(sha256(body.encode()).digest()).decode()}:"
    inputs, signatures = [], []
    for number, key in enumerate(keys):
        params = _params(key.keyid, now, expires)
        inputs.append(f"binding{number}={params}")
        signature = key.sign(base(agent, digest, params).encode())
        signatures.append(f"binding{number}=:{b64encode(signature).decode()}:")
    headers = {
        "Content-Type": MEDIA_TYPE,
        "Cache-Control": f"max-age={MAX_AGE_S}",
        "Content-Digest": digest,
        "Signature-Input": ", ".join(inputs),
        "Signature": ", ".join(signatures),
    }
    return Directory(body, headers, expires, _times(keys, now, before))


def base(agent: str, digest: str, params: str) -> str:
    """Return the text that a key of the directory signs."""
    lines = (
        f'"@authority";req: {authority_of(agent)}',
        f'"content-digest": {digest}',
        f'"@signature-params": {params}',
    )
    return "\n".join(lines)


def _jwk(key: Key) -> Mapping[str, str]:
    return {"kty": "OKP", "crv": "Ed25519", "kid": key.keyid, "x": key.x, "use": "sig"}


def _params(keyid: str, created: int, expires: int) -> str:
    return (
        f'("@authority";req "content-digest");created={created};expires={expires}'
        f';keyid="{keyid}";tag="{TAG}"'
    )


def _times(keys: Sequence[Key], now: int, before: Directory | None) -> Mapping[str, Times]:
    known = before.times if before else {}
    times = {}
    for number, key in enumerate(keys):
        earlier = known.get(key.keyid, Times(now))
        signs_since = 0 if number else earlier.signs_since or now
        times[key.keyid] = Times(earlier.published, signs_since)
    return times


def write(directory: Directory, path: Path) -> None:
    """Replace the file of a directory, at once."""
    text = dumps(
        {
            "body": directory.body,
            "headers": dict(directory.headers),
            "expires": directory.expires,
            "keys": {
                keyid: {"published": times.published, "signs_since": times.signs_since}
                for keyid, times in directory.times.items()
            },
        },
        indent=True,
    )
    beside = path.with_name(f".{path.name}.new")
    try:
        beside.write_bytes(text + b"\n")
        beside.replace(path)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error


def write_plain(directory: Directory, folder: Path) -> None:
    """Write body and headers apart, for a web server that serves them itself."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "http-message-signatures-directory").write_text(directory.body)
        lines = "".join(f"{name}: {value}\n" for name, value in directory.headers.items())
        (folder / "headers").write_text(lines)
    except OSError as error:
        raise ConfigError(f"cannot write {folder}: {error.strerror}") from error


def read(path: Path) -> Directory:
    """Read the file of a directory; ConfigError if there is none."""
    try:
        return _read(loads(path.read_bytes()))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ConfigError(
            f"{path} is not a directory of keys:"
            f" make one with `crawlstream signing directory -o {path}`"
        ) from None


def _read(found: Any) -> Directory:
    times = {
        str(keyid): Times(int(of["published"]), int(of["signs_since"]))
        for keyid, of in found["keys"].items()
    }
    headers = {str(name): str(value) for name, value in found["headers"].items()}
    return Directory(str(found["body"]), headers, int(found["expires"]), times)

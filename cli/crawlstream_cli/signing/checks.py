"""Checks of what verifiers see: the published directory, and one signed request."""

from __future__ import annotations

import re
import time
from base64 import b64decode, b64encode, urlsafe_b64decode
from collections.abc import Mapping, Sequence
from email.message import Message
from email.utils import parsedate_to_datetime
from hashlib import sha256
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from crawlstream.called import COMMAND
from crawlstream.signing.directory import MEDIA_TYPE, base
from crawlstream.signing.keys import Key, thumbprint
from crawlstream.signing.signer import DIRECTORY_PATH, Signer, Terms

_TIMEOUT_S = 10
_MOST_BYTES = 256 * 1024
_PARAMS = re.compile(r'(binding\d+)=(\([^)]*\)(?:;[a-z]+=(?:"[^"]*"|\d+))*)')
_PROOF = re.compile(r"(binding\d+)=:([A-Za-z0-9+/=]+):")
_ANSWERS = ("Crawler-Error", "Accept-Signature")
"""Headers in which a site reports its verdict on a signature."""
_ERROR = ""
"""Stands for the error, instead of a header's name, where no answer came."""
_NUMBER = re.compile(r";(created|expires)=(\d+)")
_KEYID = re.compile(r';keyid="([^"]*)"')


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_args: Any, **_named: Any) -> None:
        return None


class Checks:
    """Collects a line for each check."""

    def __init__(self, keys: Sequence[Key], terms: Terms) -> None:
        self.lines: list[str] = []
        self.all_hold = True
        self._keys = keys
        self._terms = terms

    def _note(self, what: str, problem: str = "") -> None:
        self.lines.append(f"{what}: {problem or 'ok'}")
        self.all_hold = self.all_hold and not problem

    def directory(self) -> None:
        """Fetch the directory from the agent, and verify it as others do."""
        url = self._terms.agent + DIRECTORY_PATH
        status, headers, body = _fetch(url, {})
        if status != 200:
            self._note(f"directory {url}", _no_answer(status, headers))
            return
        self._note(f"directory {url}")
        kind = headers.get("Content-Type", "").partition(";")[0].strip()
        self._note("media type", "" if kind == MEDIA_TYPE else f"{kind!r} is not {MEDIA_TYPE}")
        self._clock(headers)
        try:
            published = {str(jwk["kid"]): str(jwk["x"]) for jwk in orjson.loads(body)["keys"]}
        except (ValueError, TypeError, KeyError):
            self._note("keys", "the body is not a set of keys")
            return
        proofs = _proofs(headers, body, published, self._terms.agent)
        for key in self._keys:
            self._note(f"key {key.keyid}", _problem(key.keyid, published, proofs))

    def _clock(self, headers: Mapping[str, str]) -> None:
        if not headers.get("Date"):
            return
        ahead = time.time() - parsedate_to_datetime(headers["Date"]).timestamp()
        is_right = -self._terms.lifetime_s < ahead <= self._terms.backdate_s + 1
        self._note("clock", "" if is_right else f"{ahead:+.0f} s from the server's: set it")

    def request(self, url: str, user_agent: str) -> None:
        """Send one signed request."""
        signed = Signer(self._keys[0], self._terms).headers(url)
        status, headers, _ = _fetch(url, {"User-Agent": user_agent, **signed})
        said = [f"{name}: {headers[name]}" for name in _ANSWERS if headers.get(name)]
        problem = "" if 200 <= status < 300 else _no_answer(status, headers)
        self._note(f"request {url}", "; ".join(filter(None, [problem, *said])))


def _fetch(url: str, headers: Mapping[str, str]) -> tuple[int, Mapping[str, str], bytes]:
    """Return status, headers and body of a GET; status 0 and an error if there is no answer."""
    opener = build_opener(_NoRedirects)
    try:
        with opener.open(Request(url, headers=dict(headers)), timeout=_TIMEOUT_S) as answer:  # noqa: S310  an operator's own URL
            return answer.status, _named(answer.headers), answer.read(_MOST_BYTES)
    except HTTPError as error:
        return error.code, _named(error.headers), b""
    except (URLError, OSError, ValueError) as error:
        return 0, {_ERROR: str(getattr(error, "reason", error))}, b""


def _named(headers: Message) -> Mapping[str, str]:
    return {name.title(): value for name, value in headers.items()}


def _no_answer(status: int, headers: Mapping[str, str]) -> str:
    return f"status {status}" if status else headers[_ERROR]


def _proofs(
    headers: Mapping[str, str], body: bytes, published: Mapping[str, str], agent: str
) -> Mapping[str, str]:
    """Return the problem of each key that signs the directory; empty if its proof holds."""
    digest = f"sha-256=:{b64encode(sha256(body).digest()).decode()}:"
    signatures = dict(_PROOF.findall(headers.get("Signature", "")))
    found = {}
    for label, params in _PARAMS.findall(headers.get("Signature-Input", "")):
        keyid = _KEYID.search(params)
        if keyid and keyid[1] in published:
            signed = base(agent, digest, params)
            found[keyid[1]] = _proof(published[keyid[1]], signed, signatures.get(label, ""), params)
    return found


def _proof(x: str, signed: str, signature: str, params: str) -> str:
    try:
        key = Ed25519PublicKey.from_public_bytes(urlsafe_b64decode(x + "="))
        key.verify(b64decode(signature), signed.encode())
    except (ValueError, InvalidSignature):
        return "its signature of the directory does not hold"
    times = {name: int(value) for name, value in _NUMBER.findall(params)}
    if not times.get("created", 0) <= time.time() < times.get("expires", 0):
        return f"its signature of the directory has expired: run `{COMMAND} signing directory`"
    return ""


def _problem(keyid: str, published: Mapping[str, str], proofs: Mapping[str, str]) -> str:
    if keyid not in published:
        return "not in the directory: publish it"
    if thumbprint(published[keyid]) != keyid:
        return "the directory has another key under its name"
    return proofs.get(keyid, "it does not sign the directory")

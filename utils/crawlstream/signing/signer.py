"""Signature of a request: RFC 9421 with the profile of Web Bot Auth.

The three headers belong to one sending of a request to one authority, for a minute. They are made
where headers are handed to the client that sends them, and are never stored.
"""

from __future__ import annotations

import os
import re
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from crawlstream.signing.keys import Key


DIRECTORY_PATH = "/.well-known/http-message-signatures-directory"
TAG = "web-bot-auth"
LABEL = "sig1"
EXACT_PRICE = "crawler-exact-price"
"""Header by which a request offers to pay; always covered."""
NAMES = frozenset({"signature", "signature-input", "signature-agent"})
"""Headers of a signature, in lower case."""

Form = Literal["string", "origin", "url"]
"""Spelling of ``Signature-Agent``: of the older drafts, of draft 00, and of draft 01."""
Cover = Literal["@method", "@path"]

_NONCE_BYTES = 64
_HOSTS_REMEMBERED = 10_000
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_PLAIN_PATH = re.compile(r"/(?:[A-Za-z0-9_~!$&'()*+,;=:@-][A-Za-z0-9/_.~!$&'()*+,;=:@-]*)?")
"""Verifiers normalise others in different ways."""
_UNPLAIN = ("//", "/.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Parameters of a cluster's signatures that are the same for all requests."""

    agent: str
    """Origin that publishes the keys, ``https://host[:port]``."""
    form: Form = "string"
    lifetime_s: int = 60
    backdate_s: int = 5
    """Seconds by which a signature is dated back; verifiers refuse those of the future."""
    has_nonce: bool = True
    covers: Sequence[Cover] = ()


class Signer:
    """Signs requests with one key."""

    def __init__(self, key: Key, terms: Terms, *, clock: Callable[[], float] = time.time) -> None:
        self.keyid = key.keyid
        self._sign = key.sign
        self._terms = terms
        self._clock = clock
        origin = terms.agent + (DIRECTORY_PATH if terms.form == "url" else "")
        is_member = terms.form != "string"
        self._agent = f'{LABEL}="{origin}"' if is_member else f'"{origin}"'
        self._component = f'"signature-agent";key="{LABEL}"' if is_member else '"signature-agent"'
        self._agent_line = f'{self._component}: "{origin}"\n'
        self._tail = f';alg="ed25519";keyid="{key.keyid}"'

    def headers(self, url: str, method: str = "GET", price: str = "") -> Mapping[str, str]:
        """Return the headers that sign one request, now, with the price that it offers, if any."""
        base, components = f'"@authority": {authority_of(url)}\n', '"@authority"'
        if self._terms.covers:
            base, components = self._with_more(base, components, url, method)
        offer = f' "{EXACT_PRICE}"' if price else ""
        offer_line = f'"{EXACT_PRICE}": {price}\n' if price else ""
        created = int(self._clock()) - self._terms.backdate_s
        expires = created + self._terms.backdate_s + self._terms.lifetime_s
        nonce = f';nonce="{_nonce()}"' if self._terms.has_nonce else ""
        params = (
            f"({components} {self._component}{offer});created={created};expires={expires}"
            f'{self._tail}{nonce};tag="{TAG}"'
        )
        signed = f'{base}{self._agent_line}{offer_line}"@signature-params": {params}'
        signature = b64encode(self._sign(signed.encode())).decode()
        return {
            **({EXACT_PRICE: price} if price else {}),
            "Signature-Agent": self._agent,
            "Signature-Input": f"{LABEL}={params}",
            "Signature": f"{LABEL}=:{signature}:",
        }

    def _with_more(self, base: str, components: str, url: str, method: str) -> tuple[str, str]:
        """Cover the method and the path too, each if it is wanted and means one thing only."""
        if "@method" in self._terms.covers:
            base, components = f'{base}"@method": {method}\n', f'{components} "@method"'
        path = _path_of(url) if "@path" in self._terms.covers else ""
        if path:
            base, components = f'{base}"@path": {path}\n', f'{components} "@path"'
        return base, components


def authority_of(url: str) -> str:
    """Return the host of an address, and its port unless its scheme implies it: as in ``Host``."""
    scheme, _, rest = url.partition("://")
    return _authority(scheme, re.split("[/?#]", rest, maxsplit=1)[0])


@lru_cache(_HOSTS_REMEMBERED)
def _authority(scheme: str, netloc: str) -> str:
    host = netloc.rpartition("@")[2].lower()
    return host.removesuffix(_DEFAULT_PORTS.get(scheme, " ")).removesuffix(":")


def _path_of(url: str) -> str:
    """Return the path of an address; empty if it is not plain."""
    _, slash, path = url.partition("://")[2].partition("/")
    path = slash + re.split("[?#]", path, maxsplit=1)[0] or "/"
    is_plain = _PLAIN_PATH.fullmatch(path) and not any(part in path for part in _UNPLAIN)
    return path if is_plain else ""


def _nonce() -> str:
    return b64encode(os.urandom(_NONCE_BYTES)).decode()

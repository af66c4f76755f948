"""Who may do what, and how often.

Roles build on each other: ``read`` sees everything, ``submit`` also feeds crawls, ``operate`` also
steers them and edits the rules. Without keys whoever reaches the service operates, so it listens
on loopback only and answers no other name than loopback's: a page of the web that has its own
name point here (DNS rebinding) is refused, and so is any write that another site's page makes.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from urllib.parse import urlsplit

from starlette.requests import Request

from crawlstream.boot.api_keys import ApiKey
from crawlstream.boot.loopback import is_loopback_host
from rest_service.envelope import Refused

_BURST_S = 2.0
"""A client that was quiet may make so many seconds' worth of requests at once."""
_CLIENTS_REMEMBERED = 10_000
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class Role(IntEnum):
    """How far a client may go; each role may do what the lower ones may."""

    ANYONE = 0
    READ = 1
    SUBMIT = 2
    OPERATE = 3


@dataclass(frozen=True, slots=True)
class Client:
    """Whoever makes a request."""

    name: str
    """Tells clients apart for limits: never a secret."""
    role: Role


_NEEDED: Mapping[tuple[str, str], Role] = {
    ("POST", "/"): Role.READ,
    ("POST", "/poll"): Role.READ,
    ("POST", "/feed"): Role.SUBMIT,
    ("POST", "/v2/crawls"): Role.SUBMIT,
    ("POST", "/v2/check"): Role.SUBMIT,
}


def role_needed(method: str, path: str) -> Role:
    """The role that a route asks for: reading reads, and what is not named here operates."""
    if path == "/health" or path.startswith(("/health/", "/static/")):
        return Role.ANYONE
    return _NEEDED.get((method, path), Role.READ if method in _SAFE_METHODS else Role.OPERATE)


class Keyring:
    """The keys that are known; none at all lets everybody on this machine operate."""

    def __init__(self, keys: Sequence[ApiKey]) -> None:
        self._keys = [(_digest(key.secret), Role[key.role.upper()]) for key in keys]

    @property
    def is_empty(self) -> bool:
        """Whether the machine itself is the only border."""
        return not self._keys

    def identify(self, request: Request) -> Client:
        """Who asks; a key that is not known is refused with 401, a missing one is anyone."""
        peer = request.client.host if request.client else "unknown"
        if self.is_empty:
            return Client(peer, Role.OPERATE)
        secret = _secret_of(request)
        if secret is None:
            return Client(peer, Role.ANYONE)
        digest = _digest(secret)
        # Every key is compared, so that time does not tell which one came close.
        fitting = [role for known, role in self._keys if hmac.compare_digest(known, digest)]
        if not fitting:
            raise Refused(401, "The API key is not known.", code="unauthorized")
        return Client(digest.hex()[:12], max(fitting))


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def _secret_of(request: Request) -> str | None:
    """From ``X-API-Key``, a bearer token, or a browser's password."""
    if key := request.headers.get("x-api-key"):
        return key
    scheme, _, rest = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return rest.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(rest, validate=True).decode().partition(":")[2]
        except ValueError:
            return ""
    return None


def check_site(request: Request, *, is_keyless: bool) -> None:
    """Refuse what a page of another site has a browser send here."""
    host = request.headers.get("host", "")
    if is_keyless and host and not is_loopback_host(host):
        raise Refused(
            403,
            "Without API keys only names of this machine are answered.",
            code="forbidden_host",
        )
    if request.method in _SAFE_METHODS:
        return
    origin = request.headers.get("origin")
    is_foreign = origin is not None and urlsplit(origin).netloc != host
    if is_foreign or request.headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
        raise Refused(403, "Another site's page may not do this.", code="forbidden_origin")


class RateLimiter:
    """A bucket of requests a client, filled at ``rate`` a second; 0 limits nobody."""

    def __init__(self, rate: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def admit(self, client: str) -> bool:
        """Take one request out of the client's bucket; False: it is empty."""
        if not self._rate:
            return True
        now, full = self._clock(), max(self._rate * _BURST_S, 1.0)
        level, at = self._buckets.pop(client, (full, now))
        level = min(full, level + (now - at) * self._rate)
        is_admitted = level >= 1
        self._buckets[client] = (level - 1 if is_admitted else level, now)
        if len(self._buckets) > _CLIENTS_REMEMBERED:
            self._buckets.popitem(last=False)
        return is_admitted

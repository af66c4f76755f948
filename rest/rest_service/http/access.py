"""Access: roles, keys and rate limits of clients.

Roles build on each other: ``read`` sees everything but secrets, ``submit`` also feeds crawls,
``operate`` also steers them and edits the rules. A key may be limited to applications: then it
feeds, sees and steers their crawls, and nothing that concerns the whole cluster. Without keys every
client has the role ``operate``, so the service listens on loopback only and accepts only loopback
host names. This refuses web pages whose own name points here (DNS rebinding). Writes from pages of
other sites are refused, too.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from starlette.requests import Request

from crawlstream.boot.api_keys import ApiKey
from crawlstream.boot.loopback import is_loopback_host
from rest_service.http.envelope import RequestRefused
from rest_service.http.peers import peer_of

_BURST_S = 2.0
"""Seconds' worth of requests that an idle client may make at once."""
_CLIENTS_REMEMBERED = 10_000
_GUESSES = 10.0
"""Wrong keys that an address may try at once."""
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
MCP_AGENT = "crawlstream-mcp/"
"""Beginning of the ``User-Agent`` of tools that language models call."""
FORMS = "/ui/do"
"""Prefix of the path of a form, before the path of its route of ``/v2``."""


class Role(IntEnum):
    """Permissions of a client; each role includes the lower ones."""

    ANYONE = 0
    READ = 1
    SUBMIT = 2
    OPERATE = 3


@dataclass(frozen=True, slots=True)
class Client:
    """The sender of a request."""

    name: str
    """Name of the client in limits and in the log: never a secret."""
    role: Role
    address: str = "unknown"
    appids: frozenset[str] = frozenset()
    """Applications that the client is limited to; empty: it may access all."""
    rate: float | None = None
    """Requests per second; None: the default rate."""
    waiting: int | None = None
    """Pages that may be waiting when the client feeds more; None: any number."""
    schedules: int | None = None
    """Schedules that may exist when the client adds one; None: any number."""
    scrapes: int | None = None
    """Scrapes in progress; None: the default number."""
    via: str | None = None
    """``mcp`` if it says that a tool of an agent makes its request."""
    traceparent: str = ""
    """Header of the sampled trace that its request belongs to; empty: none, or traces are off."""

    @property
    def sees_secrets(self) -> bool:
        """Return whether the client may see credentials of clients and sites."""
        return self.role >= Role.OPERATE

    def may_see(self, appid: object) -> bool:
        """Return whether the client may access an application."""
        return not self.appids or appid in self.appids

    def may_see_all(self, appids: frozenset[str]) -> bool:
        """Return whether the client may access all of these applications; empty: every one."""
        return not self.appids or (bool(appids) and appids <= self.appids)

    def check(self, *appids: object) -> None:
        """Raise RequestRefused (403) unless the client may access all of these applications."""
        if not all(map(self.may_see, appids)):
            named = ", ".join(sorted(self.appids))
            raise RequestRefused(
                403, f"This API key is limited to the applications {named}.", code="forbidden_appid"
            )


_NEEDED: Mapping[tuple[str, str], Role] = {
    ("POST", "/"): Role.READ,
    ("POST", "/poll"): Role.READ,
    # Each tool needs the role of the routes that it calls.
    ("POST", "/mcp"): Role.READ,
    ("POST", "/feed"): Role.SUBMIT,
    ("POST", "/v2/crawls"): Role.SUBMIT,
    ("POST", "/v2/check"): Role.SUBMIT,
    ("POST", "/v2/scrape"): Role.SUBMIT,
    ("POST", "/v2/scrape/batch"): Role.SUBMIT,
    ("POST", "/v2/map"): Role.SUBMIT,
    # Log lines show more than screens do.
    ("GET", "/ui/process"): Role.OPERATE,
    ("HEAD", "/ui/process"): Role.OPERATE,
}


_OPEN = frozenset({"/health", "/v2/indexnow"})


def role_needed(method: str, path: str) -> Role:
    """Return the role that a route needs: by default READ for reading, else OPERATE."""
    if path in _OPEN or path.startswith(("/health/", "/static/", "/.well-known/")):
        return Role.ANYONE
    if method == "DELETE" and path.startswith(_SCRAPES):
        return Role.SUBMIT
    path = path.removeprefix(FORMS)
    return _NEEDED.get((method, path), Role.READ if method in _SAFE_METHODS else Role.OPERATE)


_SCRAPES = "/v2/scrape/"
_OF_APPLICATIONS = frozenset(
    {
        *("/", "/feed", "/poll", "/mcp", "/v2/openapi.json"),
        *("/v2/crawls", "/v2/check", "/v2/crawl", "/v2/rejected/replay", "/v2/scrape", "/v2/map"),
        *("/v2/crawl/runs", "/v2/crawl/compare", "/ui/crawl/runs", "/ui/crawl/compare"),
        *(f"/v2/crawl/{verb}" for verb in ("stop", "pause", "resume", "reprioritize")),
        *(
            f"/v2/{name}{way}"
            for name in ("results", "events", "rejected")
            for way in ("", "/stream", "/export")
        ),
        *("/ui/crawls", "/ui/crawl", "/ui/crawl/failures", "/ui/crawl/pages", "/ui/page"),
        *(f"/ui/page/{way}" for way in ("screenshot", "preview", "older", "newer", "of")),
        *("/ui/submit", "/ui/rejected", "/ui/rejected/one"),
        *("/v2/schedules", "/ui/schedules"),
        *("/v2/frontier", "/ui/url", "/ui/search"),
        *("/docs", "/openapi.json", "/redoc", "/crawls", "/rejected", "/submit"),
    }
)


def is_of_applications(path: str) -> bool:
    """Return whether a route separates applications; all others are for the whole cluster."""
    path = path.removeprefix(FORMS)
    return path in _OF_APPLICATIONS or path.startswith(("/v2/schedules/", "/v2/map/", _SCRAPES))


class Keyring:
    """The known keys; without any, every client on this machine may operate."""

    def __init__(self, keys: Sequence[ApiKey]) -> None:
        self._keys = [(_digest(key.secret), _client(key)) for key in keys]

    @property
    def is_empty(self) -> bool:
        """Return whether there are no keys, so that only access to the machine protects."""
        return not self._keys

    def identify(self, request: Request) -> Client:
        """Return the sender of a request; raise RequestRefused (401) if its key is unknown.

        A request without a key gets the role ANYONE.
        """
        address = request.client.host if request.client else "unknown"
        if self.is_empty:
            return Client(peer_of(address), Role.OPERATE, address)
        secret = secret_of(request)
        if secret is None:
            return Client(peer_of(address), Role.ANYONE, address)
        digest = _digest(secret)
        # Every key is compared, so that timing does not show which one came close.
        fitting = [client for known, client in self._keys if hmac.compare_digest(known, digest)]
        if not fitting:
            raise RequestRefused(401, "Unknown API key.", code="unauthorized")
        return replace(max(fitting, key=lambda client: client.role), address=address)


def _client(key: ApiKey) -> Client:
    return Client(
        name=key.name or _digest(key.secret).hex()[:12],
        role=Role[key.role.upper()],
        appids=key.appids,
        rate=key.rate,
        waiting=key.waiting,
        schedules=key.schedules,
        scrapes=key.scrapes,
    )


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def secret_of(request: Request) -> str | None:
    """Return the key from ``X-API-Key``, a bearer token, or a browser's password."""
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
    """Refuse requests that a page of another site makes a browser send here."""
    host = request.headers.get("host", "")
    if is_keyless and host and not is_loopback_host(host):
        raise RequestRefused(
            403,
            "Host header not allowed: without API keys, REST only accepts host names of this"
            " machine.",
            code="forbidden_host",
        )
    if request.method in _SAFE_METHODS:
        return
    origin = request.headers.get("origin")
    is_foreign = origin is not None and origin.partition("://")[2] != host
    if is_foreign or request.headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
        raise RequestRefused(403, "Cross-site request refused.", code="forbidden_origin")


class RateLimiter:
    """A token bucket per client, filled at ``rate`` requests per second; 0 disables it."""

    def __init__(
        self,
        rate: float,
        *,
        burst_s: float = _BURST_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rate = rate
        self._burst_s = burst_s
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def admit(self, client: str, rate: float | None = None) -> bool:
        """Take one request from the client's bucket; return False if it is empty."""
        rate = self._rate if rate is None else rate
        if not rate:
            return True
        level = self._level(client, rate)
        is_admitted = level >= 1
        self._buckets.pop(client, None)
        self._buckets[client] = (level - 1 if is_admitted else level, self._clock())
        if len(self._buckets) > _CLIENTS_REMEMBERED:
            self._buckets.popitem(last=False)
        return is_admitted

    def is_empty(self, client: str) -> bool:
        """Return whether the client would be refused; take nothing."""
        return bool(self._rate) and self._level(client, self._rate) < 1

    def _level(self, client: str, rate: float) -> float:
        now, full = self._clock(), max(rate * self._burst_s, 1.0)
        level, at = self._buckets.get(client, (full, now))
        return min(full, level + (now - at) * rate)


class Guesses:
    """Limits guesses of keys: some at once, then one per second and address.

    After too many guesses, an address may only use keys that it has used before. Any other key,
    even a right one, gets the same refusal, so faster guessing finds nothing. Other clients at that
    address continue with the keys that they have used before.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._left = RateLimiter(1.0, burst_s=_GUESSES, clock=clock)
        self._used: OrderedDict[tuple[str, str], None] = OrderedDict()

    def failed(self, address: str) -> None:
        """Count a wrong key; raise RequestRefused (429) if there were too many."""
        if not self._left.admit(peer_of(address)):
            raise _slow_down()

    def worked(self, client: Client) -> None:
        """Count a right key; raise RequestRefused (429) if it is new at an address that guesses."""
        name = (peer_of(client.address), client.name)
        if name not in self._used and self._left.is_empty(name[0]):
            raise _slow_down()
        self._used[name] = None
        self._used.move_to_end(name)
        if len(self._used) > _CLIENTS_REMEMBERED:
            self._used.popitem(last=False)


def _slow_down() -> RequestRefused:
    return RequestRefused(
        429, "Too many wrong API keys: wait and try again.", code="too_many_guesses"
    )

"""The law of signed requests, by the site's log and a verifier of another project's."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from http_message_signatures import (
    HTTPMessageSignaturesException,
    HTTPMessageVerifier,
    InvalidSignature,
    MappingKeyResolver,
)
from http_message_signatures.algorithms import ED25519

from crawlstream.signing.signer import EXACT_PRICE, TAG
from crawlstream_chaos.facts.facts import RESULTS, Facts

OTHER_CLOCKS = frozenset({"wrong-clock"})
"""Faults by which crawlers sign for another time than the site's."""

Refused = HTTPMessageSignaturesException
"""The signature does not hold."""


@dataclass(frozen=True, slots=True)
class _Message:
    """A request, as the verifier wants it."""

    method: str
    url: str
    headers: Mapping[str, str]


class _SiteVerifier(HTTPMessageVerifier):
    """Judges dates by the clock of a site, and forgives no second."""

    def __init__(self, keys: Mapping[str, str], now: float | None) -> None:
        self._now = now
        super().__init__(
            signature_algorithm=ED25519,
            key_resolver=MappingKeyResolver(
                public_keys={keyid: _public(x) for keyid, x in keys.items()}, private_keys={}
            ),
        )

    def validate_created_and_expires(
        self, sig_input: Any, max_age: timedelta | None = None
    ) -> None:
        """Refuse what is signed for another time."""
        params = sig_input.params
        created, expires = int(params.get("created", 0)), int(params.get("expires", 0))
        if self._now is not None and not created <= self._now < expires:
            late = f"for {created} to {expires}, and it was {self._now:.3f}"
            raise InvalidSignature(f"early or expired: {late}")


@dataclass
class Verifier:
    """Verifies requests against published keys; no nonce may come twice."""

    keys: Mapping[str, str]
    """Public keys in base64url, by keyid."""
    nonces: set[str] = field(default_factory=set)

    def verify(
        self,
        headers: Mapping[str, str],
        *,
        authority: str,
        now: float | None,
        path: str = "/",
        method: str = "GET",
    ) -> Mapping[str, object]:
        """Return the parameters of a request's signature, which is by the profile Web Bot Auth.

        ``headers`` have names in lower case; without ``now``, dates are not judged. Refused says
        why a signature does not hold.
        """
        message = _Message(method, f"http://{authority}{path}", headers)
        (found,) = _SiteVerifier(self.keys, now).verify(
            message, expect_tag=TAG, require_components=["@authority"], max_age=None
        )
        if not any(name.startswith('"signature-agent"') for name in found.covered_components):
            raise InvalidSignature("the agent is not covered")
        if EXACT_PRICE in headers and f'"{EXACT_PRICE}"' not in found.covered_components:
            raise InvalidSignature("the price is not covered")
        if found.nonce in self.nonces:
            raise InvalidSignature("the nonce came before")
        self.nonces.add(found.nonce or "")
        return found.parameters


def all_signed(facts: Facts) -> Iterator[str]:
    """Each request is signed for its host and time, by a key of the directory of that time.

    The site verifies as any would: with the directory as it was published when the request came.
    Each result names a key that was published.
    """
    if not facts.published:
        return
    verifier = Verifier({})
    has_other_clocks = any(strike.fault in OTHER_CLOCKS for strike in facts.strikes)
    for visit in sorted(facts.visits, key=lambda visit: visit.mono):
        known = [each for each in facts.published if each.since <= visit.mono]
        verifier.keys = known[-1].keys if known else {}
        try:
            verifier.verify(
                visit.signature,
                authority=visit.authority or visit.host,
                path=visit.path,
                method=visit.method,
                now=None if has_other_clocks else visit.wall / 1000,
            )
        except Refused as error:
            yield f"{visit.host}{visit.path} is refused: {error}"
    keys = {keyid for each in facts.published for keyid in each.keys}
    for record in facts.records:
        if record.topic == RESULTS and record.value.get("signed") not in keys:
            yield f"{record.value['url']} names no key of the directory"


def _public(x: str) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(urlsafe_b64decode(x + "="))


LAWS: Mapping[str, Callable[[Facts], Iterator[str]]] = {
    "every request is signed": all_signed,
}

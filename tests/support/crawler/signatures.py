"""A verifier of signed requests, written from RFC 9421 and the profile of Web Bot Auth alone."""

from __future__ import annotations

import re
from base64 import b64decode, urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

_INPUT = re.compile(r"sig1=(\(([^)]*)\)(;.*))")
_SIGNATURE = re.compile(r"sig1=:([A-Za-z0-9+/=]+):")
_PARAMETER = re.compile(r';([a-z]+)=("[^"]*"|\d+)')


class Refused(Exception):
    """The signature does not hold."""


@dataclass
class Verifier:
    """Verifies requests against published keys; no nonce may come twice."""

    keys: Mapping[str, str]
    """Public keys in base64url, by keyid."""
    nonces: set[str] = field(default_factory=set)

    def verify(
        self, headers: Mapping[str, str], *, authority: str, now: float, path: str = "/"
    ) -> Mapping[str, str]:
        """Return the parameters of a GET's signature; ``headers`` have names in lower case."""
        given = _INPUT.fullmatch(headers.get("signature-input", ""))
        signature = _SIGNATURE.fullmatch(headers.get("signature", ""))
        if not given or not signature:
            raise Refused("not signed")
        found = {name: value.strip('"') for name, value in _PARAMETER.findall(given[3])}
        if not int(found["created"]) <= now < int(found["expires"]):
            raise Refused("early or expired")
        components = given[2].split(" ")
        if found["tag"] != "web-bot-auth" or '"@authority"' not in components:
            raise Refused("another profile")
        values = {'"@authority"': authority, '"@method"': "GET", '"@path"': path}
        values |= _agent(headers.get("signature-agent", ""))
        lines = [f"{component}: {values[component]}" for component in components]
        lines.append(f'"@signature-params": {given[1]}')
        self._prove(found["keyid"], "\n".join(lines), signature[1])
        if found.get("nonce") in self.nonces:
            raise Refused("the nonce came before")
        self.nonces.add(found.get("nonce", ""))
        return found

    def _prove(self, keyid: str, base: str, signature: str) -> None:
        if keyid not in self.keys:
            raise Refused("unknown key")
        raw = urlsafe_b64decode(self.keys[keyid] + "=")
        try:
            Ed25519PublicKey.from_public_bytes(raw).verify(b64decode(signature), base.encode())
        except InvalidSignature:
            raise Refused("not what was signed") from None


def _agent(header: str) -> Mapping[str, str]:
    """Return the value of Signature-Agent by the component that covers it."""
    if header.startswith('"'):
        return {'"signature-agent"': header}
    label, _, value = header.partition("=")
    return {f'"signature-agent";key="{label}"': value}

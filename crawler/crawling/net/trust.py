"""Verify servers before requests that carry secrets.

A crawl of unknown sites accepts any certificate: most broken ones are neglect, and its requests
contain no secrets. Credentials in a client's seed are secret, and an attacker between could read
them. So they leave only over connections with a valid certificate, which are kept apart.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from OpenSSL import SSL
from scrapy import Request
from service_identity import VerificationError
from twisted.internet._sslverify import ClientTLSOptions
from twisted.internet.ssl import CertificateOptions, platformTrust
from twisted.web.iweb import IPolicyForHTTPS
from zope.interface import implementer

from crawling.page.scrapy_request import carries_cookies
from crawlstream.model.crawl import Lease
from crawlstream.model.credentials import identify


def must_prove(request: Request, lease: Lease, setting: bool | None) -> bool:  # noqa: FBT001  a setting
    """Return whether the certificate must hold: as the operator set it, else if there is a secret.

    A cookie that the server itself has set along a redirect is none, and was read by then.
    """
    if setting is not None:
        return setting
    names = {name.decode("latin-1").lower() for name in request.headers}
    if not carries_cookies(lease):
        names.discard("cookie")
    return bool(request.body) or identify(names)


def is_untrusted(error: BaseException) -> bool:
    """Return whether a connection failed because the certificate does not hold."""
    return isinstance(error, VerificationError) or (
        isinstance(error, SSL.Error) and "certificate verify failed" in str(error)
    )


@implementer(IPolicyForHTTPS)
class Trust:
    """Twisted's policy of TLS, chosen for each request."""

    def __init__(self, lenient: Any, must_prove: Callable[[], bool]) -> None:
        """``lenient``: Scrapy's policy; ``must_prove``: whether the current request verifies."""
        self._lenient = lenient
        self._must_prove = must_prove
        # Shared by all connections: it holds the certificates of the machine.
        self._options: Any = CertificateOptions(trustRoot=platformTrust())

    def creatorForNetloc(self, hostname: bytes, port: int) -> Any:  # noqa: N802  Twisted's name
        """Return the factory of the TLS side of a connection to a host."""
        if not self._must_prove():
            return self._lenient.creatorForNetloc(hostname, port)
        # As Twisted's optionsForClientTLS does, which reads all certificates for each connection.
        return ClientTLSOptions(self._options._makeTLSConnection, hostname.decode("ascii"))  # noqa: SLF001


_USUAL_CERTIFICATES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Certificate files of Debian, Red Hat, SUSE and macOS, for an OpenSSL without its own."""


def trusted_certificates() -> dict[str, str]:
    """Return the places of trusted certificates, ``cafile`` and ``capath``, as OpenSSL does."""
    paths = ssl.get_default_verify_paths()
    found = {"cafile": paths.cafile, "capath": paths.capath}
    known = {name: path for name, path in found.items() if path}
    if known or os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR"):
        return known
    usual = next((path for path in _USUAL_CERTIFICATES if Path(path).exists()), None)
    return {"cafile": usual} if usual else {}

"""A web behind TLS, whose handshakes may take their time."""

from __future__ import annotations

import datetime as dt
import os
import socket
import ssl
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from crawlstream_chaos.scripted_site import CrawlerSite, Page, is_whole, stamp_of
from support.crawler.greetings import read_greeting

_ADDRESS = ip_address("127.0.0.1")


def make_certificate(folder: Path, *names: x509.GeneralName) -> Path:
    """A key and its self-signed certificate, in one file.

    ``names`` are the hosts and addresses that it is for; without any, 127.0.0.1.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "site.example")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=2))
        .not_valid_after(now + dt.timedelta(days=2))
    )
    for_names = x509.SubjectAlternativeName(names or (x509.IPAddress(_ADDRESS),))
    certificate = certificate.add_extension(for_names, critical=False)
    signed = certificate.sign(key, hashes.SHA256())
    plain = serialization.NoEncryption()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain
    )
    path = folder / "site.pem"
    path.write_bytes(private + signed.public_bytes(serialization.Encoding.PEM))
    return path


class TlsSite(CrawlerSite):
    """Answers what a test's pages say, only over TLS, and only once it has a certificate.

    When a request arrived comes from the kernel, as it does without TLS.
    """

    def __init__(self, pages: Mapping[str, Page], port: int = 0) -> None:
        super().__init__(pages, port)
        self.handshakes = 0
        self.wants_grease = False
        """True: it ends a connection that does not begin as Chrome's do."""
        self.handshake_s = 0.0
        """How long the site makes a visitor wait before it answers the first greeting."""
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def certify(self, certificate: Path) -> None:
        """Show this certificate."""
        self.context.load_cert_chain(certificate)

    def grow_old(self) -> None:
        """Speak TLS 1.0 and nothing later, as servers did long ago."""
        self.context.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings(action="ignore"):
            self.context.minimum_version = ssl.TLSVersion.TLSv1
            self.context.maximum_version = ssl.TLSVersion.TLSv1

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        """Where a path is found."""
        return f"https://{host}:{self.port}{path}"

    def _talk(self, visitor: socket.socket) -> None:
        with visitor, suppress(OSError):
            time.sleep(self.handshake_s)
            if (
                self.wants_grease
                and not read_greeting(visitor.recv(65536, socket.MSG_PEEK)).has_grease
            ):
                return
            with self.context.wrap_socket(visitor, server_side=True) as secret:
                self.handshakes += 1
                self.speak(secret)

    def speak(self, secret: ssl.SSLSocket) -> None:
        """Serve one connection that is encrypted by now."""
        # Below the encryption; a socket of its own, as `secret` shows what it has decrypted only.
        with socket.socket(fileno=os.dup(secret.fileno())) as wire:
            while (received := _receive(secret, wire)) and self._answer(secret, *received):
                pass


def _receive(visitor: ssl.SSLSocket, wire: socket.socket) -> tuple[bytes, float] | None:
    """Return a whole request and when its last byte came; None at the end of the connection."""
    request, at = b"", 0.0
    while not is_whole(request):
        if not visitor.pending():
            _data, notes, _flags, _peer = wire.recvmsg(65536, 256, socket.MSG_PEEK)
            at = stamp_of(notes) or at
        data = visitor.recv(65536)
        if not data:
            return None
        request += data
    return request, at

"""The synthetic web behind TLS: a few hosts that keep connections, or many that close each.

Run as a program with a port, numbers of links and bytes, and ``keeps`` or ``closes``. The port
above returns how many pages were requested, without TLS.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import ssl
import sys
import tempfile
from collections.abc import Sequence
from functools import partial

import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from lib.web import Site, address, beginning

KEPT_HOSTS, CLOSED_HOSTS = 4, 600


def url(port: int, host: int, page: int) -> str:
    """Return where a page is."""
    return f"https://{address(host)}:{port}/p/{page}.html"


class ClosingSite(Site):
    """Ends each connection behind its answer."""

    def data_received(self, data: bytes) -> None:
        """Answer once."""
        super().data_received(data)
        self._transport.close()

    def _answer(self, head: bytes) -> bytes:
        return super()._answer(head).replace(b"\r\n", b"\r\nConnection: close\r\n", 1)


def context() -> ssl.SSLContext:
    """Return a context with a self-signed certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bench")])
    now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now - day, now + day)
    signed = made.sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    words = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ) + signed.public_bytes(pem)
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(words)
        file.flush()
        found.load_cert_chain(file.name)
    return found


async def serve(port: int, links: int, size: int, *, keeps: bool) -> None:
    """Serve until killed."""
    loop = asyncio.get_running_loop()
    beginnings: Sequence[bytes] = [
        beginning(url(port, host, 0)) for host in range(KEPT_HOSTS if keeps else CLOSED_HOSTS)
    ]
    make = partial(Site if keeps else ClosingSite, port, links, size, beginnings)
    every_host = "0.0.0.0"  # noqa: S104  addresses of 127.0.0.0/8
    server = await loop.create_server(make, every_host, port, backlog=4096, ssl=context())
    await loop.create_server(partial(Site, port, links, size, beginnings), "127.0.0.1", port + 1)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(*map(int, sys.argv[1:4]), keeps=sys.argv[4] == "keeps"))

"""SOCKS5 (RFC 1928, 1929) from the client's side: greeting, password, request.

Libraries for this report a wrong password, and much else, only by the text of an error.
"""

from __future__ import annotations

import struct
from asyncio import StreamReader, StreamWriter
from collections.abc import Mapping
from ipaddress import ip_address

from crawling.egress.blame import Blame
from crawling.failures import ProxyTrouble
from crawlstream.model.egress.pools import Secret

_VERSION = 5
_NO_LOGIN, _PASSWORD, _NONE_WILL_DO = 0, 2, 0xFF
_BY_IPV4, _BY_NAME, _BY_IPV6 = 1, 3, 4
_LONGEST = 255

_REFUSED: Mapping[int, Blame] = {
    1: Blame.PATH,  # general failure
    2: Blame.DENIED,  # not allowed by its rules
    3: Blame.PATH,  # network unreachable
    4: Blame.PATH,  # host unreachable
    5: Blame.PATH,  # connection refused
    6: Blame.PATH,  # TTL expired
}
"""By the reply; all others are the proxy's."""


async def ask(
    reader: StreamReader,
    writer: StreamWriter,
    target: tuple[str, int],
    credentials: tuple[str, Secret] | None,
) -> None:
    """Have a proxy connect to a name or an address; ProxyTrouble if it does not."""
    writer.write(bytes((_VERSION, 1, _PASSWORD if credentials else _NO_LOGIN)))
    version, method = await reader.readexactly(2)
    if version != _VERSION:
        raise ProxyTrouble(Blame.PROXY, "it does not speak SOCKS5")
    if method == _NONE_WILL_DO:
        raise ProxyTrouble(Blame.PASSWORD, "it wants to be logged in to in another way")
    if method == _PASSWORD and credentials:
        await _log_in(reader, writer, credentials)
    elif method != _NO_LOGIN:
        raise ProxyTrouble(Blame.PROXY, f"it wants method {method} of SOCKS")
    writer.write(bytes((_VERSION, 1, 0)) + _written(*target))
    _, reply, _, kind = await reader.readexactly(4)
    if reply:
        raise ProxyTrouble(_REFUSED.get(reply, Blame.PROXY), f"SOCKS reply {reply}")
    await _skip_address(reader, kind)


async def _log_in(
    reader: StreamReader, writer: StreamWriter, credentials: tuple[str, Secret]
) -> None:
    user, password = credentials[0].encode(), credentials[1].reveal().encode()
    if len(user) > _LONGEST or len(password) > _LONGEST:
        raise ProxyTrouble(Blame.PASSWORD, "user name or password is too long for SOCKS")
    writer.write(bytes((1, len(user))) + user + bytes((len(password),)) + password)
    _, status = await reader.readexactly(2)
    if status:
        raise ProxyTrouble(Blame.PASSWORD, "it rejects user name and password")


def _written(host: str, port: int) -> bytes:
    try:
        address = ip_address(host)
    except ValueError:
        name = host.encode("idna") if not host.isascii() else host.encode()
        if len(name) > _LONGEST:
            raise ProxyTrouble(Blame.SITE, "its name is too long for SOCKS") from None
        where = bytes((_BY_NAME, len(name))) + name
    else:
        where = bytes((_BY_IPV4 if address.version == 4 else _BY_IPV6,)) + address.packed
    return where + struct.pack("!H", port)


async def _skip_address(reader: StreamReader, kind: int) -> None:
    """The address that the proxy connects from is not used."""
    sizes = {_BY_IPV4: 4, _BY_IPV6: 16}
    if kind == _BY_NAME:
        (size,) = await reader.readexactly(1)
    elif kind in sizes:
        size = sizes[kind]
    else:
        raise ProxyTrouble(Blame.PROXY, "its SOCKS reply has no address")
    await reader.readexactly(size + 2)

"""Blame for a failed transfer: figures that tinyproxy, Dante and plain sockets made."""

from __future__ import annotations

import pytest

from crawling.client.blame import Ending, blame_for
from crawling.egress.blame import Blame

MEASURED = {
    "the proxy refuses the connection": (Ending(number=7, was_reached=False), Blame.PROXY),
    "the proxy closes at once": (Ending(number=56), Blame.PROXY),
    "the proxy says no HTTP": (Ending(number=56), Blame.PROXY),
    "the proxy says nothing": (Ending(number=28), Blame.PATH),
    "no TLS at an HTTPS proxy": (Ending(number=35, is_tls_of_proxy=True), Blame.PROXY),
    "wrong password (tinyproxy)": (Ending(number=7, connect_code=401), Blame.PASSWORD),
    "no password": (Ending(number=7, connect_code=407), Blame.PASSWORD),
    "CONNECT to this port is denied": (Ending(number=7, connect_code=403), Blame.DENIED),
    "CONNECT is no method of it": (Ending(number=7, connect_code=405), Blame.DENIED),
    "CONNECT 400": (Ending(number=7, connect_code=400), Blame.PROXY),
    "CONNECT 501": (Ending(number=7, connect_code=501), Blame.PROXY),
    "site refuses (tinyproxy)": (Ending(number=7, connect_code=500), Blame.PATH),
    "CONNECT 404": (Ending(number=7, connect_code=404), Blame.PATH),
    "CONNECT 502": (Ending(number=7, connect_code=502), Blame.PATH),
    "CONNECT 504": (Ending(number=7, connect_code=504), Blame.PATH),
    "SOCKS method refused": (Ending(number=97, proxy_error=12), Blame.PASSWORD),
    "SOCKS password refused": (Ending(number=97, proxy_error=33), Blame.PASSWORD),
    "SOCKS reply 1": (Ending(number=97, proxy_error=20), Blame.PATH),
    "SOCKS reply 2 (a rule of Dante)": (Ending(number=97, proxy_error=23), Blame.DENIED),
    "SOCKS reply 3": (Ending(number=97, proxy_error=22), Blame.PATH),
    "SOCKS reply 4 (no such name)": (Ending(number=97, proxy_error=21), Blame.PATH),
    "SOCKS reply 5 (site refuses)": (Ending(number=97, proxy_error=19), Blame.PATH),
    "SOCKS reply 6": (Ending(number=97, proxy_error=24), Blame.PATH),
    "SOCKS reply 7": (Ending(number=97, proxy_error=18), Blame.PROXY),
    "SOCKS reply 8": (Ending(number=97, proxy_error=17), Blame.PROXY),
    "no TLS at the site": (Ending(number=35, connect_code=200), Blame.TLS),
    "no TLS at the site, by SOCKS": (Ending(number=35), Blame.TLS),
    "no TLS at the site, by an HTTPS proxy": (
        Ending(number=35, connect_code=200, is_tls_of_proxy=True),
        Blame.TLS,
    ),
    "the tunnel closes in the handshake": (
        Ending(number=56, connect_code=200),
        Blame.PATH,
    ),
    "the site closes": (Ending(number=52, connect_code=200, was_paid=True), Blame.SITE),
    "the site says nothing": (Ending(number=28, connect_code=200, was_paid=True), Blame.SITE),
}


@pytest.mark.parametrize(("end", "expected"), MEASURED.values(), ids=MEASURED)
def test_the_figures_of_a_failure_name_who_is_to_blame(end: Ending, expected: Blame) -> None:
    """The proxy only where it is surely the proxy's: others would be out for a dead site."""
    assert blame_for(end) is expected

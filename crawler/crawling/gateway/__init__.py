"""Proxy on 127.0.0.1 for programs that open their own connections.

Such a program knows only this address. ``gateway`` admits clients with a token, ``visitor`` is a
client's connection, ``relay`` a tunnel, ``forward`` a request by its whole URL; ``passes`` are
the tokens with the traffic of each. ``dialer`` checks a target and connects, directly or through
the proxy of a route; ``socks`` is the client of SOCKS proxies.
"""

"""The way out of programs that open connections of their own: a proxy on 127.0.0.1.

Such a program knows this address and no other. ``gateway`` lets out whoever has a token,
``visitor`` is one that asks, ``relay`` a tunnel, ``forward`` a request by its whole URL;
``ways_out`` are the tokens, with what went through by each. ``dialer`` vets a target and connects,
directly or through the proxy of a route; ``socks`` is how one speaks to SOCKS proxies.
"""

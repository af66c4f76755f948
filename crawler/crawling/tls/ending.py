"""Why a request with the TLS of a browser came to nothing, and who is to blame for that.

By what the gateway knows and by libcurl's numbers, never by its texts.
"""

from __future__ import annotations

from dataclasses import dataclass

from curl_cffi import CurlError
from scrapy.exceptions import DownloadTimeoutError

from crawling.client.errors import TLS, failure_of
from crawling.egress.blame import Blame
from crawling.failures import PathFailed, ProxyTrouble, reason_of
from crawling.gateway.gateway import Pass
from crawling.lease.holds import GrantExpired
from crawling.tls.exchange import Exchange


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How an exchange ended."""

    exchange: Exchange
    way_out: Pass
    was_used: bool
    """Whether its connection was a kept one."""
    proves: bool
    """Whether the certificate had to hold."""

    def failure(self, error: CurlError | DownloadTimeoutError) -> Exception:
        """What is to be told."""
        known = self.exchange.error or self.way_out.last_failure
        told: Exception = error
        number = 0
        if isinstance(error, CurlError):
            number = int(error.code)
            told = failure_of(number, str(error), os_errno=0, must_prove=self.proves)
        if self.exchange.error or isinstance(known, GrantExpired):
            return known or told
        is_proxied = self.way_out.route is not None
        if number in TLS and not self.exchange.has_head:
            # The tunnel stood: a site that closes it over a greeting may have sent nothing.
            return ProxyTrouble(Blame.TLS, str(error), reason_of(told)) if is_proxied else told
        return known or (self._blamed(told, number) if is_proxied else told)

    def _blamed(self, told: Exception, number: int) -> Exception:
        """The same of a way through a proxy; ``number`` is libcurl's, 0 if time was over."""
        reason = reason_of(told)
        # What ends a tunnel that stands came through it, encrypted: it is the site's word.
        if self.exchange.has_head or (number and not self.way_out.was_cut):
            return ProxyTrouble(Blame.SITE, str(told), reason)
        if number and self.was_used:
            return PathFailed("connection_lost", str(told), is_silent=False)
        return ProxyTrouble(Blame.PATH, f"nothing came back: {reason}")

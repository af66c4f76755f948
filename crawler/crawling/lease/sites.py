"""Which requests the lease of a page pays for: those to its own site."""

from __future__ import annotations

from collections.abc import Callable

from crawling.lease.expired import GrantExpired
from crawlstream.errors import InvalidUrl
from crawlstream.model.crawl import Lease
from crawlstream.model.throttle_table import site_of
from crawlstream.model.web.address import address


class OtherSite(ValueError):
    """A request leads to a site that its page's grant is not for."""


class Sites:
    """The map of sites by which leases are granted."""

    def __init__(self) -> None:
        self.site_of: Callable[[int, str], str] = lambda _partition, url: site_of(None, url)
        """Function that returns the site of a URL, by the rules that a partition grants by."""

    def covers(self, lease: Lease, url: str) -> bool:
        """Return whether a lease pays for a request: it is for the same site. InvalidUrl.

        A host that is blocked, paused or limited by itself is a site by itself, so that the grant
        of another one never covers it.
        """
        if url != lease.entry.url:
            url = address(url)
        return self.site_of(lease.partition, url) == lease.domain

    def check(self, lease: Lease, url: str) -> None:
        """Refuse what a lease does not pay for: OtherSite.

        GrantExpired if its own page is not of its site any more, for the rules have changed.
        """
        try:
            if not self.covers(lease, url):
                if not self.covers(lease, lease.entry.url):
                    raise GrantExpired
                raise OtherSite(f"{url} is not on the site {lease.domain}: yield a Request")
        except InvalidUrl as error:
            raise OtherSite(str(error)) from error

"""Sites of some hundred pages."""

from __future__ import annotations

from dataclasses import replace

from crawlstream_chaos.waste_sites.honest import Shop
from crawlstream_chaos.waste_sites.site import GeneratedPage, Url
from crawlstream_chaos.waste_sites.traps import Orders, SessionIds, SoftErrors


class FewSessions(SessionIds):
    """Articles whose links have a session id of their own."""

    articles = 100


class FewOrders(Orders):
    """Articles whose lists are shown in every order."""

    articles = 100


class FewErrors(SoftErrors):
    """Articles with broken links, for which the site answers 200."""

    articles = 100


class SmallShop(Shop):
    """The first two categories of a shop."""

    size = 201

    def core(self, at: Url) -> GeneratedPage | None:
        """Return a page of these categories."""
        page = super().core(at)
        if page and at.path == "/":
            return replace(page, links=page.links[:2])
        return page

"""The base of every spider of the cluster: implement ``parse``, nothing else is needed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from scrapy import Spider
from scrapy.http import Headers, Response, TextResponse

from crawling.links.children import Outlinks
from crawling.links.sitemap_files import listed_by
from crawling.page.page import Page
from crawling.page.page_traits import traits_of
from crawling.page.scrapy_request import page_of
from crawling.parts import Parts
from crawling.response.codings import INCOMPLETE
from crawlstream.errors import ConfigError
from crawlstream.model.crawl import READS_SITEMAP
from crawlstream.model.result import CrawlResult, digest_of

_AS_ASKED: Any = object()


class ClusterSpider(Spider):
    """A spider that the frontier feeds; its ``name`` is what requests call ``spiderid``.

    ``parse`` yields results (:meth:`result`), requests, or whole pages of links
    (:class:`~crawling.links.children.Outlinks`). Requests wait in the frontier and may be fetched
    by any worker: callbacks are methods of the spider, ``meta`` holds JSON values only. A request
    whose ``meta["spiderid"]`` names another spider is handed over to that one.
    """

    obeys_maxdepth = True
    """True if requests below the crawl's ``maxdepth`` are left out."""

    fetches_pages = True
    """True if expressions and extensions of the crawl are about what it fetches, not hosts alone:
    redirects are followed by them."""

    async def start(self) -> AsyncIterator[Any]:
        """Everything that the frontier grants to this worker."""
        async for request in Parts.of(self.crawler).requests():
            yield request

    def crawlstream_sitemap(self, response: Response, **_kwargs: Any) -> Iterator[Any]:
        """Read a sitemap of a crawl with ``sitemaps``: its record, and what it leads to."""
        found = listed_by(response, is_whole=INCOMPLETE not in response.flags)
        yield found.files
        titles = [one.title for one in found.pages]
        yield Outlinks([one.url for one in found.pages], texts=titles)
        links = [(one.url, one.title) for one in found.all]
        yield self.result(response, links, lastmods=[one.lastmod for one in found.all])

    def result(
        self,
        response: Response,
        links: Sequence[tuple[str, str]] = (),
        *,
        attrs: Mapping[str, object] | None = _AS_ASKED,
        lastmods: Sequence[str] = (),
    ) -> CrawlResult:
        """The record of a page, as the topic of results carries it; TypeError for odd arguments.

        A page whose links are not to be followed has none, where that is obeyed; one whose body is
        not to be kept has an empty one, and ``dropped`` says why.
        ``links`` are pairs of URL and text, ``lastmods`` when each of them was changed last, where
        that is known; ``attrs`` an object of JSON, by default the crawl's.
        """
        if attrs is not _AS_ASKED and not isinstance(attrs, Mapping | None):
            raise TypeError(f"attrs of a result must be a dict or None, not {attrs!r:.100}")
        first: Any = links[0] if links else ("", "")
        if isinstance(first, str) or len(first) != 2:
            raise TypeError("links of a result must be pairs of URL and text")
        page = page_of(response)
        asked = page.lease.profile.attrs if attrs is _AS_ASKED else attrs
        return result_of(page, response, links, attrs=asked, lastmods=lastmods)


def result_of(
    page: Page,
    response: Response,
    links: Sequence[tuple[str, str]] = (),
    *,
    attrs: Mapping[str, object] | None,
    lastmods: Sequence[str] = (),
    kind: str | None = None,
) -> CrawlResult:
    """Return the record of a response, of another kind than a page if that is given."""
    lease, entry, profile = page.lease, page.lease.entry, page.lease.profile
    request = response.request
    return CrawlResult(
        id=page.id,
        crawl=lease.crawl,
        run=lease.run,
        attrs=attrs,
        url=entry.url,
        response_url=response.url,
        status_code=response.status,
        request_headers=_all_of(request.headers) if request else {},
        response_headers=_all_of(response.headers),
        **_body_of(page, response),
        **_statements_of(page, response),
        encoding=response.encoding if isinstance(response, TextResponse) else None,
        links=_followed(page, links),
        timestamp=page.received_at,
        depth=entry.depth,
        seed_url=profile.seed_url or (*entry.redirect_urls, entry.url)[0],
        attempt=lease.attempt,
        latency_ms=page.latency_ms,
        ip=str(response.ip_address) if response.ip_address else None,
        parent_url=entry.parent_url,
        redirect_urls=entry.redirect_urls,
        uuid=profile.uuid,
        recovered=lease.recovered,
        firing=lease.firing,
        lastmods=() if page.keeps_links else lastmods,
        proxy=page.proxy,
        tls_profile=page.tls,
        render=page.render,
        method=str(request.method) if request else "GET",
        signed=page.signed,
        payment=page.payment,
        incomplete=INCOMPLETE in response.flags,
        kind=kind,
    )


def require_cluster_spider(spider: type[Spider]) -> None:
    """ConfigError for a spider that would crawl by itself, past the frontier."""
    if not issubclass(spider, ClusterSpider):
        raise ConfigError(
            f"{spider.__name__} is not a cluster spider: derive it from crawling.ClusterSpider,"
            " listed before other base classes"
        )


def _body_of(page: Page, response: Response) -> dict[str, Any]:
    """Return the body for a result, or size and digest of one that is not kept, and why."""
    body, sent = response.body, page.as_sent
    if page.dropped is None:
        if sent and sent.body == body:
            sent = replace(sent, body=None)
        return {"body": body, "as_sent": sent, **_screenshot_of(page)}
    return {
        "body": b"",
        "as_sent": replace(sent, body=None) if sent else None,
        "body_size": len(body),
        "digest": digest_of(body),
        "dropped": page.dropped,
        "screenshot": {"error": "dropped"} if page.screenshot else None,
    }


def _screenshot_of(page: Page) -> dict[str, Any]:
    made = page.screenshot
    return {"screenshot": made.told, "screenshot_body": made.body} if made else {}


def _statements_of(page: Page, response: Response) -> dict[str, Any]:
    """Return the fields of a result about what the page is and says of itself, and its text."""
    traits = traits_of(page, response)
    return {
        "sitemap": page.lease.entry.callback == READS_SITEMAP,
        "directives": page.directives.texts,
        "rights": page.rights,
        "canonical": traits.canonical,
        "text_signature": traits.text_signature,
        "guard": page.guard.of_result() if page.guard else None,
    }


def _followed(page: Page, links: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    """Return the links without those that are left out because the page or the guard says so."""
    if page.keeps_links:
        return ()
    if page.guard and page.guard.left_out:
        return [link for link in links if link[0] not in page.guard.left_out]
    return links


def _all_of(headers: Headers) -> Mapping[bytes, Sequence[bytes]]:
    return dict(dict.items(headers))  # Its own way in normalizes each name once more.


RedisSpider = ClusterSpider
"""The name that spiders written for the predecessor know."""

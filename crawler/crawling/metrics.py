"""Prometheus metrics of a crawler; pages are counted after the frontier has accepted them."""

from __future__ import annotations

from http import HTTPStatus

from prometheus_client import Counter, Gauge, Histogram

from crawling.lease.pending_report import LeaseReport
from crawlstream.model.effects import ExchangeResult, Outcome
from crawlstream.model.throttle_table import Reaction

LEASES = Counter("crawlstream_leases", "Number of pages leased to workers.", ["spider"])
PAGES = Counter(
    "crawlstream_pages",
    "Number of completed pages, by outcome: `done`, `failed`, `redirected` or `skipped`.",
    ["spider", "outcome"],
)
FAILURES = Counter(
    "crawlstream_page_failures",
    "Number of failed pages, by the reason in their `page_failed` event.",
    ["spider", "reason"],
)
SKIPPED = Counter(
    "crawlstream_skipped",
    "Number of pages that ended before their request, by the reason in their `pages_skipped`"
    " event.",
    ["spider", "reason"],
)
RETURNED = Counter(
    "crawlstream_pages_returned",
    "Number of leases that ended without completing the page: `retry` (requeued for another"
    " attempt), `release` (requeued, attempt not counted), `stale` (the lease had already been"
    " revoked).",
    ["spider", "why"],
)
REPLY_SECONDS = Histogram(
    "crawlstream_reply_seconds",
    "Time from the lease of a page for which a client waits to Kafka's acknowledgement of its"
    " reply, by outcome: `page` or `failed`.",
    ["outcome"],
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
PAGE_BYTES = Counter("crawlstream_page_bytes", "Decompressed size of delivered pages.", ["spider"])
RESPONSES = Counter(
    "crawlstream_responses",
    "Number of downloads by HTTP status, including retries; downloads without a response count"
    " as 504.",
    ["spider", "status"],
)
DOWNLOAD_SECONDS = Histogram(
    "crawlstream_download_seconds",
    "Time from sending a request to the last byte of its response.",
    ["spider"],
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
PAYMENTS = Counter(
    "crawlstream_payments",
    "Number of payments of crawls with a purse, by what became of them: `charged`; `free`: the site"
    " refused, or the request did not leave; `unsettled`: without a receipt, counts as spent;"
    " `overcharged`, `unasked`: the site charged more than its price, or without an offer. Prices"
    " that were not paid, by the reason: `no_purse`, `closed`, `not_for_it`, `overcharges`,"
    " `too_expensive`, `empty`, `unreachable` (Redis).",
    ["outcome"],
)
SIGNED = Counter("crawlstream_requests_signed", "Number of requests that were signed.", ["spider"])
SIGNATURES_REFUSED = Counter(
    "crawlstream_signatures_refused",
    "Number of signed requests that a site refused for their signature, by its `crawler-error`;"
    " `accept_signature` (401 or 403, and it asks for another signature); `other`.",
    ["code"],
)
HEADERS_LEFT_OUT = Counter(
    "crawlstream_headers_left_out",
    "Number of headers of crawls and spiders that were not sent because signed requests reserve"
    " their names.",
    ["spider"],
)
CLOCK_SKEW = Gauge(
    "crawlstream_clock_skew_seconds",
    "How far this machine's clock is ahead of the sites' (`Date`): the median of 31 responses to"
    " signed requests, of which every 256th counts.",
)
REFUSALS = Counter(
    "crawlstream_refusals",
    "Number of requests that cause back-off: `refusal` (429, 503), `silence` (connection failed"
    " or broken).",
    ["spider", "kind"],
)
ADDRESSES_REFUSED = Counter(
    "crawlstream_addresses_refused",
    "Number of requests refused by the address guard: `special` (private, reserved or metadata"
    " address), `denied` (`CRAWLSTREAM_DENY_NETWORKS`), `own` (address of this machine), `port`"
    " (port not allowed), `proxy` (a proxy of the cluster's own).",
    ["why"],
)
PROXY_REQUESTS = Counter(
    "crawlstream_proxy_requests",
    "Number of attempts to send a request through a pool of proxies: `ok` (the site answered),"
    " `refused` (it answered with 403, 407, 429 or 503), `proxy` (the proxy failed),"
    " `password` (it rejects user name and password), `denied` (the"
    " proxy does not go to that site), `path` (no way from the proxy to the site), `tls` (handshake"
    " with the site failed), `broken` (the response broke off), `none` (no proxy was fit), `busy`"
    " (all had as many requests in progress as they may).",
    ["pool", "outcome"],
)
PROXY_BYTES = Counter(
    "crawlstream_proxy_bytes",
    "Traffic through pools of proxies by direction (`sent`, `received`), without that of TLS.",
    ["pool", "direction"],
)
PROXY_CONNECT_SECONDS = Histogram(
    "crawlstream_proxy_connect_seconds",
    "Time to connect to a proxy, for requests that needed a new connection.",
    ["pool"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 3),
)
RENDERS = Counter(
    "crawlstream_renders",
    "Number of pages that a browser has fetched: `rendered`, `incomplete` (taken as it was after"
    " `CRAWLSTREAM_RENDER_TIMEOUT`), `plain` (no page for a browser), `released` (requeued, attempt"
    " not counted), `failed`.",
    ["spider", "outcome"],
)
RENDER_SECONDS = Histogram(
    "crawlstream_render_seconds",
    "Time that a page was in a browser.",
    ["spider"],
    buckets=(0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60),
)
RENDER_REQUESTS = Counter(
    "crawlstream_render_requests",
    "Number of further requests of rendered pages: `sent`, or not sent because of their `type`,"
    " because the page had sent enough (`capped`), because of `robots`, because the operator has"
    " `blocked` or paused the site, because the site has `refused` one, because the browser has not"
    " said that it sends one (`unasked`).",
    ["verdict"],
)
REQUISITES = Counter(
    "crawlstream_requisites",
    "Number of requisites of archived pages: those that `came`; were `known`, for an earlier page"
    " of the run had them; or were not requested: because the page had requested enough"
    " (`capped`), because of `robots`, because the operator has `blocked` or paused the site,"
    " because the site has `refused` one, because its robots.txt was not to be had"
    " (`robots_unknown`), because the time was over (`late`); or `failed`.",
    ["outcome"],
)
RENDER_HANDED_OVER = Counter(
    "crawlstream_render_handed_over",
    "Number of pages of crawls with automatic rendering that were handed over to crawlers with a"
    " browser: for the verdict on their `family`, as a `trial`, or because their document was a"
    " `shell`.",
    ["why"],
)
RENDER_PAIRS = Counter(
    "crawlstream_render_pairs",
    "Number of documents of crawls with automatic rendering that were compared with the rendered"
    " page: it had text or links that only a browser shows (`needed`), or not (`plain`).",
    ["outcome"],
)
SCREENSHOTS = Counter(
    "crawlstream_screenshots",
    "Number of screenshots that crawls wanted: `taken`, or the `error` in the result.",
    ["outcome"],
)
RENDER_ACTIONS = Counter(
    "crawlstream_render_actions",
    "Number of actions in rendered pages: `done`, or the `error` in the result, which ends those of"
    " the page.",
    ["outcome"],
)
RENDER_MEMORY = Gauge(
    "crawlstream_render_memory_bytes", "Memory of the browser with all of its processes."
)
BROWSER_RESTARTS = Counter(
    "crawlstream_browser_restarts",
    "Number of browsers that were replaced: after enough `pages`, because of `memory`, or because"
    " it was `gone`.",
    ["reason"],
)
TLS_ROTATIONS = Counter(
    "crawlstream_tls_rotations",
    "Number of times that this worker has moved the pages of a pool and a domain on to another TLS"
    " profile, after a failed handshake.",
    ["to"],
)
GATEWAY_TUNNELS = Gauge(
    "crawlstream_gateway_tunnels",
    "Number of connections open through the gateway of this worker, by which engines with"
    " connections of their own reach sites.",
)
GATEWAY_REFUSED = Counter(
    "crawlstream_gateway_refused",
    "Number of requests refused by the gateway: `auth` (no token), `method` (not for a site),"
    " `special`, `denied`, `own`, `port`, `proxy` (refused by the address guard), `dns` (no"
    " address), `fence` (no word from Redis, or the process was frozen), `grant` (sent too late),"
    " `tunnels`, `bytes` (limits of the page), `answer` (the site spoke no HTTP).",
    ["reason"],
)
GUARD_PAGES = Counter(
    "crawlstream_guard_pages",
    "Number of pages that voted for the waste guard, by what is known of their text: `dup`"
    " (known, or not 2xx), `fresh` (in the sample, and new), `maybe` (outside of the sample).",
    ["kind"],
)
GUARD_LINKS = Counter(
    "crawlstream_guard_links",
    "Number of links that the waste guard has held back on completed pages: `last` (put last), or"
    " refused, by the reason under `filtered`.",
    ["decision"],
)
GUARD_SITES = Gauge(
    "crawlstream_guard_sites",
    "Number of sites of which this crawler knows a sketch, by the worst verdict on a family of"
    " URLs: `open`, `last`, `dropped`, `refused`.",
    ["state"],
)
GUARD_CONFLICTS = Counter(
    "crawlstream_guard_conflicts",
    "Number of sketches that another crawler had replaced when votes were to be added.",
)
GUARD_NEIGHBOURS = Counter(
    "crawlstream_guard_neighbours",
    "Number of made-up neighbours that the waste guard has requested: `there` (the site"
    " answers for URLs that nothing links to), `missing`, or `none` (it refused, was silent, or"
    " redirected to another site).",
    ["answer"],
)
EXCHANGE_SECONDS = Histogram(
    "crawlstream_exchange_seconds",
    "Duration of one call to the frontier, which reports completed pages and leases new ones.",
    ["spider"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
)
HOLDS = Gauge(
    "crawlstream_holds", "Number of pages in flight at this worker (its leases).", ["spider"]
)
SLOTS = Gauge(
    "crawlstream_download_slots",
    "Maximum number of concurrent downloads of this worker.",
    ["spider"],
)

_STATUSES = frozenset(map(int, HTTPStatus))
_KINDS = {Reaction.REFUSAL: "refusal", Reaction.SILENCE: "silence"}


class Meter:
    """Metrics of one worker."""

    def __init__(self, spiderid: str, slots: int) -> None:
        self._spider = spiderid
        self._leases = LEASES.labels(spiderid)
        self._pages = {outcome: PAGES.labels(spiderid, outcome) for outcome in Outcome}
        self._returned = {
            why: RETURNED.labels(spiderid, why) for why in ("retry", "release", "stale")
        }
        self._refusals = {
            reaction: REFUSALS.labels(spiderid, kind) for reaction, kind in _KINDS.items()
        }
        self._bytes = PAGE_BYTES.labels(spiderid)
        self._download = DOWNLOAD_SECONDS.labels(spiderid)
        self._exchange = EXCHANGE_SECONDS.labels(spiderid)
        self._holds = HOLDS.labels(spiderid)
        SLOTS.labels(spiderid).set(slots)

    def response(self, status: int, latency_ms: int | None) -> None:
        """Count one download; ``latency_ms`` None: no response came."""
        # Sites may send any number; each invalid status would become a series of its own.
        name = str(status) if status in _STATUSES else "other"
        RESPONSES.labels(self._spider, name).inc()
        if latency_ms is not None:
            self._download.observe(latency_ms / 1000)

    def exchanged(self, owed: LeaseReport, answer: ExchangeResult, seconds: float) -> None:
        """Count the effects of one answered exchange."""
        self._exchange.observe(seconds)
        self._leases.inc(len(answer.leases))
        untaken = answer.stale | answer.refused
        for settle in owed.settles:
            if settle.token in untaken:
                continue
            self._pages[settle.outcome].inc()
            self._bytes.inc(settle.body_bytes)
            if settle.outcome is Outcome.FAILED:
                FAILURES.labels(self._spider, settle.reason).inc()
            elif settle.outcome is Outcome.SKIPPED:
                SKIPPED.labels(self._spider, settle.reason).inc()
        self._returned["stale"].inc(len(answer.stale))
        for why, ends in (("retry", owed.requeues), ("release", owed.releases)):
            self._returned[why].inc(sum(end.token not in untaken for end in ends))
        for sent in owed.sent:
            if sent.heard and sent.heard.reaction in _KINDS:
                self._refusals[sent.heard.reaction].inc()

    def holding(self, pages: int) -> None:
        """Set the number of leased pages."""
        self._holds.set(pages)

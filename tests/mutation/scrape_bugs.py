"""Bugs in the scrapes of REST: their bounds, their secrets, and what is given back."""

from __future__ import annotations

from mutation.bug import Bug

SCRAPE_BUGS = {
    "a page that was fetched with a login is shared": Bug(
        module="rest_service.v2.scrapes.scrape_order",
        right='_PRIVATE = ("headers", "cookie", "cookies")',
        wrong='_PRIVATE = ("headers",)',
        test="unit/rest/test_scrapes.py::without_secrets",
    ),
    "the bytes of a cancelled request are lost": Bug(
        module="rest_service.http.byte_budget",
        right="            else:\n                self._give_back(wish)\n",
        wrong="            else:\n                pass\n",
        test="unit/rest/test_scrapes.py::cancelled",
    ),
    "a client takes all bytes": Bug(
        module="rest_service.http.byte_budget",
        right="        self._each = most // 2\n",
        wrong="        self._each = most\n",
        test="unit/rest/test_scrapes.py::so_many_bytes",
    ),
    "an answer that is not read occupies nothing": Bug(
        module="rest_service.http.streaming",
        right="        async with self._held:\n            await send(\n",
        wrong="        await self._held.aclose()\n        if True:\n            await send(\n",
        test="unit/rest/test_held_answers.py::held_until",
    ),
    "events gather for a client that does not read": Bug(
        module="rest_service.http.streaming",
        right="                await queue.join()\n",
        wrong="",
        test="unit/rest/test_held_answers.py::not_made_before",
    ),
    "the end of a scrape is not reported": Bug(
        module="rest_service.topics.flights",
        right="        self._ended[flight.partition].append(id_)\n",
        wrong="",
        test="unit/rest/test_scrapes.py::share_a_flight",
    ),
    "the end of a scrape of a dead process is not reported": Bug(
        module="rest_service.topics.flights",
        right="            self._ended_elsewhere.append(id_)\n",
        wrong="            pass\n",
        test="unit/rest/test_scrapes.py::reported_everywhere",
    ),
    "a reply that was given up is kept": Bug(
        module="rest_service.topics.page_replies",
        right="        if reply.uuid not in self._dropped:\n",
        wrong="        if True:\n",
        test="unit/rest/test_scrapes.py::given_up",
    ),
    "a page that was fetched with a login answers others": Bug(
        module="rest_service.v2.scrapes.scrape_order",
        right="        if is_own or wish:\n",
        wrong="        if wish:\n",
        test="unit/rest/scrapes/test_recent_pages.py::kind_of_a_scrape",
    ),
    "a map lists URLs of other sites": Bug(
        module="rest_service.v2.scrapes.site_urls",
        right="            elif self.is_ours(url) and self._fits(url):\n",
        wrong="            elif self._fits(url):\n",
        test="unit/rest/scrapes/test_site_urls.py::listed_once",
    ),
    "a recent page answers other applications": Bug(
        module="rest_service.topics.recents",
        right="        return RecentKey(appid, canonical(url), kind)\n",
        wrong='        return RecentKey("", canonical(url), kind)\n',
        test="unit/rest/scrapes/test_recent_pages.py::does_not_fit",
    ),
    "the page of another application is shown": Bug(
        module="rest_service.v2.scrapes.scrape_routes",
        right=(
            "    if not client.may_see(reply.crawl.appid):\n"
            "        raise _unknown()\n"
            "    async with"
        ),
        wrong="    async with",
        test="unit/rest/test_scrapes.py::another_application",
    ),
}

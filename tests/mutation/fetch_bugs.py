"""Bugs on purpose in the fetch lane and in its HTTP client; ``test_planted.py`` plants them."""

# ruff: noqa: E501  what is planted is quoted as it stands

from __future__ import annotations

from mutation.bug import Bug

_CLIENT = "integration/crawler/test_http_client.py::"
_LANE = "integration/crawler/test_lane.py::"

FETCH_BUGS = {
    "libcurl connects to any address": Bug(
        module="crawling.client.transfer",
        right='if ip_address(where[0].partition("%")[0]) not in self._addresses:',
        wrong="if False:",
        test=_CLIENT + "vetted",
    ),
    "libcurl looks up names itself": Bug(
        module="crawling.client.http_client",
        right="return [pin(self.host, self.port, self.addresses)] if is_name else []",
        wrong="return []",
        test=_CLIENT + "next_address",
    ),
    "an address that was pinned once is used for ever": Bug(
        module="crawling.client.http_client",
        right="transfer.curl.setopt(pycurl.RESOLVE, pins)",
        wrong='transfer.curl.setopt(pycurl.RESOLVE, vars(self).setdefault("pinned", pins))',
        test=_CLIENT + "vetted_last",
        red_by=("AddressRefused",),  # libcurl was led to the old one
    ),
    "a request is sent again by libcurl": Bug(
        module="crawling.client.transfer",
        right="            self._refuse_another()\n            return _ABORT\n",
        wrong="            return _GO_ON\n",
        test=_CLIENT + "sent_twice",
    ),
    "libcurl does not ask before it sends": Bug(
        module="crawling.client.transfer",
        right="    setopt(pycurl.PREREQFUNCTION, transfer.on_request)\n",
        wrong="",
        test=_CLIENT + "once_the_connection_stands",
        red_by=("RuntimeError",),  # sent without asking
    ),
    "what was sent without asking is taken": Bug(
        module="crawling.client.http_client",
        right="if not transfer.is_paid:",
        wrong="if False:",
        test=_CLIENT + "nobody_has_paid",
    ),
    "a grant is spent before there is a connection": Bug(
        module="crawling.client.transfer",
        right="            made = _Lent(family, kind, protocol)\n",
        wrong="            made = _Lent(family, kind, protocol)\n            self._leases.depart(self.page)\n",
        test=_CLIENT + "once_the_connection_stands",
    ),
    "a grant that is too old is no matter": Bug(
        module="crawling.client.transfer",
        right="            self.error = error\n            return _ABORT\n",
        wrong="            pass\n",
        test=_CLIENT + "once_the_connection_stands",
    ),
    "nobody is told that a request has left": Bug(
        module="crawling.client.transfer",
        right="        self._loop.call_soon(self._leases.departed, page)\n",
        wrong="",
        test=_CLIENT + "what_leaves",
        red_by=("ValueError",),  # nothing to unpack
    ),
    "nobody is told what a site has said": Bug(
        module="crawling.response.site_feedback",
        right="leases.receive(page, heard)",
        wrong="leases.receive(page)",
        test=_CLIENT + "what_leaves",
    ),
    "the wait for a slot counts as the latency of a site": Bug(
        module="crawling.lease.leases",
        right="int((page.head_at - page.left_at) * 1000)",
        wrong="int((page.head_at - page.admitted_at) * 1000)",
        test="unit/crawler/lease/test_leases.py::departure_of_the_request",
    ),
    "a large body does not wait": Bug(
        module="crawling.client.transfer",
        right="            self.curl.pause(pycurl.PAUSE_RECV)\n",
        wrong="",
        test=_CLIENT + "waits_for_older",
    ),
    "a body that waits uses up its time": Bug(
        module="crawling.client.transfer",
        right="            self.is_paused = True\n            self.clock.turn_over()\n",
        wrong="            self.is_paused = True\n",
        test=_CLIENT + "waits_for_older",
        red_by=("AssertionError", "DownloadTimeoutError"),
    ),
    "a body waits for ever": Bug(
        module="crawling.client.clock",
        right="self._other_left_s = LONGEST_PAUSE_S",
        wrong="self._other_left_s = 4.0",
        test=_CLIENT + "waits_too_long",
    ),
    "a body that failed is weighed on": Bug(
        module="crawling.response.site_feedback",
        right="        leases.body_budget.drop(page)\n",
        wrong="",
        test=_CLIENT + "room_of_others",
    ),
    "what nothing comes of has no end": Bug(
        module="crawling.client.multi",
        right="if unheard > LONGEST_HEAD:",
        wrong="if False:",
        test=_CLIENT + "on_for_ever",
    ),
    "what is promised to be too large is begun": Bug(
        module="crawling.client.transfer",
        right="body_length(self.head)) > self._most:",
        wrong="body_length(self.head)) < 0:",
        test=_CLIENT + "on_for_ever",
    ),
    "a download has no time of its own": Bug(
        module="crawling.client.http_client",
        right="transfer.clock = Clock(self._loop, timeout_s, end)",
        wrong="transfer.clock = Clock(self._loop, 99.0, end)",
        test=_CLIENT + "drips",
    ),
    "a proxy of the environment is asked": Bug(
        module="crawling.client.transfer",
        right='    setopt(pycurl.PROXY, "")\n',
        wrong="",
        test=_CLIENT + "environment",
    ),
    "a password is read from a file": Bug(
        module="crawling.client.transfer",
        right="pycurl.NETRC_IGNORED",
        wrong="pycurl.NETRC_OPTIONAL",
        test=_CLIENT + "environment",
    ),
    "libcurl follows redirects": Bug(
        module="crawling.client.transfer",
        right="setopt(pycurl.FOLLOWLOCATION, 0)",
        wrong="setopt(pycurl.FOLLOWLOCATION, 1)",
        test=_CLIENT + "remembered",
    ),
    "libcurl remembers who wants TLS": Bug(
        module="crawling.client.transfer",
        right="setopt(pycurl.HSTS_CTRL, 0)",
        wrong="setopt(pycurl.HSTS_CTRL, 1)",
        test=_CLIENT + "remembered",
    ),
    "libcurl keeps cookies": Bug(
        module="crawling.client.transfer",
        right="setopt(pycurl.HSTS_CTRL, 0)",
        wrong='setopt(pycurl.COOKIEFILE, "")',
        test=_CLIENT + "remembered",
    ),
    "libcurl unpacks bodies": Bug(
        module="crawling.client.transfer",
        right="    setopt(pycurl.HTTP_CONTENT_DECODING, 0)\n",
        wrong='    setopt(pycurl.ENCODING, "")\n',
        test=_CLIENT + "written_as_it_is",
    ),
    "secrets go over connections that proved nothing": Bug(
        module="crawling.client.transfer",
        right="self.curl.setopt(pycurl.SSL_VERIFYPEER, int(verifies))",
        wrong="pass",
        test=_CLIENT + "proved_nothing",
    ),
    "half a head is a response": Bug(
        module="crawling.client.http_client",
        right="if not transfer.has_head:",
        wrong="if not transfer.head:",
        test=_CLIENT + "by_name",
    ),
    "a page of the lane is settled while Kafka is asked": Bug(
        module="crawling.lane.lane",
        right="            await self._pipeline.process_item(item)\n",
        wrong="            asyncio.ensure_future(self._pipeline.process_item(item))\n            await asyncio.sleep(0)\n",
        test=_LANE + "and_not_before",
    ),
    "an item that the lane could not publish is forgotten": Bug(
        module="crawling.lane.lane",
        right="            endings.item_failed(response, Failure(error))\n            return\n",
        wrong="            pass\n",
        test=_LANE + "ends_no_page",
    ),
    "a download of the lane that failed is forgotten": Bug(
        module="crawling.lane.lane",
        right="            await self._parts.outcomes.failed(failure)\n",
        wrong="",
        test=_LANE + "no_more",
    ),
    "the lane takes what is not for the spider": Bug(
        module="crawling.lane.lane",
        right="            response = await self._outcome.process_response(request, response)\n",
        wrong="",
        test=_LANE + "no_more",
    ),
    "the lane has no end of attempts": Bug(
        module="crawling.response.outcome",
        right="return page.lease.retries < self.settings.retry_times",
        wrong="return page.lease.retries <= 99",
        test=_LANE + "no_more",
    ),
    "a further attempt meets the same client": Bug(
        module="crawling.runtime.way",
        right="if self._renders or not page.lease.retries or is_named(page):",
        wrong="if True:",
        test=_LANE + "further_attempts",
    ),
    "a spider ends its process": Bug(
        module="crawling.page.flight_recorder",
        right="        if error is None or isinstance(error, Exception):\n",
        wrong="        if True:\n",
        test=_LANE + "not_its_process",
        red_by=("SystemExit", "ValueError"),
    ),
    "a spider closes Scrapy": Bug(
        module="crawling.lane.lane",
        right="Failure(_bounded(error))",
        wrong="Failure(error)",
        test=_LANE + "not_its_process",
        red_by=("ValueError", "AttributeError"),
    ),
    "a spider that raises loses its links": Bug(
        module="crawling.lane.lane",
        right="        finally:\n            gathering.stop()\n        gathering.complete()\n",
        wrong="        finally:\n            pass\n        gathering.stop()\n        gathering.complete()\n",
        test=_LANE + "not_its_process",
    ),
    "a page is blamed while it waits": Bug(
        module="crawling.lane.lane",
        right="        finally:\n            recorder.clear(page)\n",
        wrong="        finally:\n            pass\n",
        test=_LANE + "recorder",
    ),
    "no page of the lane is blamed": Bug(
        module="crawling.lane.lane",
        right="        recorder.note(page)\n",
        wrong="",
        test=_LANE + "recorder",
    ),
    "the lane has no bound": Bug(
        module="crawling.lane.lane",
        right="        self._size += size\n",
        wrong="        self._size += 0\n",
        test=_LANE + "full",
    ),
    "the lane stays full": Bug(
        module="crawling.lane.lane",
        right="            self._size -= size\n",
        wrong="            pass\n",
        test=_LANE + "full",
    ),
    "a full lane holds up its pages": Bug(
        module="crawling.lane.lane",
        right="            await self._turns.take()\n",
        wrong="            while self.is_full:\n                await asyncio.sleep(0.01)\n            await self._turns.take()\n",
        test=_LANE + "full",
    ),
    "a full lane leases on": Bug(
        module="crawling.runtime.way",
        right="return self._lane is None or not self._lane.is_full",
        wrong="return True",
        test=_LANE + "full",
    ),
    "a page in the lane has no deadline": Bug(
        module="crawling.lane.lane",
        right="        response: Response\n        with self._parts.deadlines.stretch(page):\n",
        wrong="        response: Response\n        if True:\n",
        test=_LANE + "too_long",
    ),
    "the end does not wait for the lane": Bug(
        module="crawling.lane.lane",
        right="while self._tasks:",
        wrong="if len(self._tasks) > 9:",
        test=_LANE + "closing",
    ),
    "a redirect waits for its body": Bug(
        module="crawling.response.codings",
        right="status // 100 == 3 or ",
        wrong="",
        test=_LANE + "no_more",
    ),
    "a part of a body passes for the whole": Bug(
        module="crawling.response.codings",
        right="response.flags if is_whole else [*response.flags, INCOMPLETE]",
        wrong="response.flags",
        test="unit/crawler/engine/test_middlewares.py::breaks_off",
    ),
    "a cookie of a redirect goes to any page of its host": Bug(
        module="crawling.page.chain_cookies",
        right=" if not path or covers(path, url)]",
        wrong="]",
        test="unit/crawler/page/test_chain_cookies.py::later_page",
    ),
    "a cookie for a foreign domain is taken": Bug(
        module="crawling.page.chain_cookies",
        right="return not attributes.domain or may_set_for(attributes.domain, host_of(url))",
        wrong="return True",
        test="unit/crawler/page/test_chain_cookies.py::own_nothing_above",
    ),
    "pages crowd the CPU": Bug(
        module="crawling.lane.loop_turns",
        right="                self._take()\n                return",
        wrong="                pass",
        test=_LANE + "one_in_a_round",
    ),
    "a sitemap whose header says nofollow is followed": Bug(
        module="crawling.engine.gathering",
        right="            if page.keeps_links:\n",
        wrong="            if False:\n",
        test="unit/crawler/links/test_nofollow.py::a_list_with_nofollow",
    ),
    "a body that is not to be kept is in the result": Bug(
        module="crawling.spiders.base",
        right="    if page.dropped is None:\n",
        wrong="    if True:\n",
        test="unit/crawler/page/test_dropped_bodies.py::size_and_digest",
    ),
    "the first statement about a use holds": Bug(
        module="crawling.page.statements",
        right='    if has_room and (answer == "n" or use not in found):\n',
        wrong="    if has_room and use not in found:\n",
        test="unit/crawler/page/test_rights.py::strictest",
    ),
    "all paths of a robots.txt count": Bug(
        module="crawling.robots.preferences",
        right="for each in some if each.length == longest)",
        wrong="for each in some)",
        test="unit/crawler/robots/test_preferences.py::longest_path",
    ),
    "a usage does not end the agents above it": Bug(
        module="crawling.robots.lines",
        right='            self._lines.append("disallow: ")\n',
        wrong="",
        test="unit/crawler/robots/test_preferences.py::ends_the_agents",
    ),
    "a header counts before the page": Bug(
        module="crawling.page.rights",
        right='    for source in ("meta", "header", "file"):\n',
        wrong='    for source in ("header", "meta", "file"):\n',
        test="unit/crawler/page/test_rights.py::speaks_for_itself",
    ),
    "the longest rule of a tdmrep.json counts": Bug(
        module="crawling.robots.terms",
        right="        if self.are_ordered:\n",
        wrong="        if False:\n",
        test="unit/crawler/robots/test_terms.py::first_rule_that_matches",
    ),
    "a directive of that name reserves a page": Bug(
        module="crawlstream.model.web.directives",
        right="    for ban in (BodyBan.NOINDEX, BodyBan.NOARCHIVE):\n",
        wrong="    for ban in BodyBan:\n",
        test="unit/crawler/page/test_dropped_bodies.py::reservation_is_a_ban",
    ),
    "a reserved page is not counted": Bug(
        module="crawlstream_frontier.worker.link_packer",
        right="is_counted = settle.dropped or settle.is_reserved or settle.answered\n",
        wrong="is_counted = settle.dropped or settle.answered\n",
        test="integration/frontier/runs/test_endings.py::pages_without_links",
    ),
    "a page that is not kept has its screenshot": Bug(
        module="crawling.spiders.base",
        right='"screenshot": {"error": "dropped"} if page.screenshot else None,',
        wrong="**_screenshot_of(page),",
        test="unit/crawler/page/test_dropped_bodies.py::no_screenshot",
    ),
    "a picture shows a document that was not read": Bug(
        module="crawling.render.screenshot",
        right='if told["frameTree"]["frame"]["loaderId"] != self.loader:',
        wrong="if False:",
        test="integration/render/test_screenshots.py::with_the_reason and moved",
    ),
    "a click hits a banner in front of its element": Bug(
        module="crawling.render.script",
        right='return each.contains(document.elementFromPoint(x, y)) ? [x, y] : "covered";',
        wrong="return [x, y];",
        test="integration/render/test_actions.py::cannot_be_done",
    ),
    "actions go on after one that could not be done": Bug(
        module="crawling.render.actions",
        right='effect["error"] = error\n                break',
        wrong='effect["error"] = error',
        test="integration/render/test_actions.py::cannot_be_done",
    ),
    "requisites go to other sites beyond their rules": Bug(
        module="crawling.render.judge",
        right="            self.elsewhere[site] += cost\n",
        wrong="            self.elsewhere[site] += 0\n",
        test="unit/crawler/render/test_judge.py::rules_of_all_sites",
    ),
    "an answered client counts as waiting": Bug(
        module="crawlstream_frontier.worker.link_packer",
        right='counts += (f"a:{settle.answered}", -1)',
        wrong='counts += (f"a:{settle.answered}", 0)',
        test="integration/redis_monitor/test_outbox.py::clients_that_still_wait",
    ),
    "a page is settled before its client has the reply": Bug(
        module="crawling.publish.completion",
        right="            self._tasks.spawn(self._answer_without_result(page))\n            return\n",
        wrong="            self._tasks.spawn(self._answer_without_result(page))\n",
        test="unit/crawler/publish/test_completion.py::without_a_result",
    ),
}

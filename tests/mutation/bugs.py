"""All bugs that are planted on purpose: in the monitors, the crawler, REST and the frontier's Python."""

# ruff: noqa: E501  what is planted is quoted as it stands

from __future__ import annotations

from mutation.agent_bugs import AGENT_BUGS
from mutation.bug import Bug
from mutation.egress_bugs import EGRESS_BUGS
from mutation.fetch_bugs import FETCH_BUGS
from mutation.recurring_bugs import RECURRING_BUGS
from mutation.score_bugs import SCORE_BUGS
from mutation.scrape_bugs import SCRAPE_BUGS
from mutation.shelf_bugs import SHELF_BUGS
from mutation.sink_bugs import SINK_BUGS
from mutation.stage_bugs import STAGE_BUGS
from mutation.visit_bugs import VISIT_BUGS

BUGS = FETCH_BUGS | {
    "a rejection is told after its position has passed": Bug(
        module="kafka_monitor.intake_loop",
        right=(
            "        await self.liveness.retry(partial(self._rejects.publish, judged.rejected))\n"
            "        note = partial(self._recovery.note_steering, judged.batch, judged.effects)\n"
            "        await self.liveness.retry(note)\n"
            "        answer = await self.liveness.retry(partial(self._put, judged))\n"
        ),
        wrong=(
            "        note = partial(self._recovery.note_steering, judged.batch, judged.effects)\n"
            "        await self.liveness.retry(note)\n"
            "        answer = await self.liveness.retry(partial(self._put, judged))\n"
            "        await self.liveness.retry(partial(self._rejects.publish, judged.rejected))\n"
        ),
        test="integration/kafka_monitor/test_order_of_effects.py::rejected_is_told",
    ),
    "a refusal is noted as told before it is": Bug(
        module="kafka_monitor.intake_loop",
        right=(
            "            await self.liveness.retry(partial(self._rejects.publish, refused))\n"
            "            await self.liveness.retry(partial(self._intake.note_published, judged.batch))\n"
        ),
        wrong=(
            "            await self.liveness.retry(partial(self._intake.note_published, judged.batch))\n"
            "            await self.liveness.retry(partial(self._rejects.publish, refused))\n"
        ),
        test="integration/kafka_monitor/test_order_of_effects.py::refuses_is_told",
    ),
    "a refusal is never noted as told": Bug(
        module="kafka_monitor.intake_loop",
        right="            await self.liveness.retry(partial(self._intake.note_published, judged.batch))\n",
        wrong="",
        test="integration/kafka_monitor/test_order_of_effects.py::refuses_is_told",
    ),
    "a stop takes effect before Kafka remembers it": Bug(
        module="kafka_monitor.intake_loop",
        right=(
            "        await self.liveness.retry(note)\n"
            "        answer = await self.liveness.retry(partial(self._put, judged))\n"
        ),
        wrong=(
            "        answer = await self.liveness.retry(partial(self._put, judged))\n"
            "        await self.liveness.retry(note)\n"
        ),
        test="integration/kafka_monitor/test_order_of_effects.py::remembers_a_stop",
    ),
    "a stop is not remembered at all": Bug(
        module="kafka_monitor.recovery",
        right="effect.crawl and effect.name in REMEMBERED",
        wrong="effect.crawl and effect.name == 'pause'",
        test="integration/kafka_monitor/test_order_of_effects.py::remembers_a_stop",
    ),
    "an action is forgotten before its reply is in Kafka": Bug(
        module="redis_monitor.action_runner",
        right=(
            "        await self._liveness.retry(lambda: self._publish(records))\n"
            "        await self._liveness.retry(lambda: self._streams.answered(ids))\n"
        ),
        wrong=(
            "        await self._liveness.retry(lambda: self._streams.answered(ids))\n"
            "        await self._liveness.retry(lambda: self._publish(records))\n"
        ),
        test="integration/kafka_monitor/test_order_of_effects.py::answered_before_it_is_forgotten",
    ),
    "a service that is away fails the action": Bug(
        module="redis_monitor.action_runner",
        right="reply: object = await self._liveness.retry(lambda: handler.answer(action))",
        wrong="reply: object = await handler.answer(action)",
        test="integration/kafka_monitor/test_order_of_effects.py::service_that_is_away",
    ),
    "a debt is forgotten before Kafka has its record": Bug(
        module="redis_monitor.outbox",
        right=("            await self._publish(records)\n            if self._coordinators:"),
        wrong=(
            "            await self._liveness.retry(lambda: self._streams.published(ids))\n"
            "            await self._publish(records)\n            if self._coordinators:"
        ),
        test="integration/kafka_monitor/test_order_of_effects.py::owed_is_told",
    ),
    "an unreadable debt is dropped": Bug(
        module="redis_monitor.outbox",
        right="            return put_aside(owed, self._topics)",
        wrong="            return []",
        test="integration/redis_monitor/test_outbox.py::put_aside",
        red_by=("ValueError",),  # nothing to unpack
    ),
    "a monitor does not keep what it is telling": Bug(
        module="redis_monitor.outbox",
        right="async with self._streams.keeping_records(ids):",
        wrong="async with self._streams.keeping([]):",
        test="integration/redis_monitor/test_outbox.py::no_other",
    ),
    "an ending that does not add up is no matter": Bug(
        module="redis_monitor.ledger_audit",
        right='counters.get("admitted", 0) - sum',
        wrong="sum",
        test="integration/kafka_monitor/test_order_of_effects.py::add_up",
    ),
    "a failure is settled before it is told": Bug(
        module="crawling.publish.completion",
        right="        await self._publisher.event(event)\n        if page.is_asked_for:",
        wrong=(
            "        self._leases.settle(page, Outcome.FAILED, reason)\n"
            "        await self._publisher.event(event)\n        if page.is_asked_for:"
        ),
        test="unit/crawler/publish/test_completion.py::told_to_the_world_first",
    ),
    "a page is done while its items wait for Kafka": Bug(
        module="crawling.publish.completion",
        right="if not page.parsed or page.items or not page.is_open:",
        wrong="if not page.parsed or not page.is_open:",
        test="unit/crawler/publish/test_completion.py::left_the_pipelines",
    ),
    "a failure says what is inside": Bug(
        module="crawling.publish.completion",
        right='_readable(detail) if reason in _EXPLAINED else ""',
        wrong="_readable(detail)",
        test="unit/crawler/publish/test_completion.py::stays_inside",
    ),
    "what was not acknowledged is given up": Bug(
        module="crawling.publish.publisher",
        right="            return await until_available(attempt, backoff=backoff, on_wait=note)\n",
        wrong=(
            "            return await attempt()\n"
            "        except Unavailable:\n"
            "            return None  # type: ignore\n"
        ),
        test="unit/crawler/publish/test_completion.py::told_to_the_world_first",
    ),
    "an end is forgotten before it is told": Bug(
        module="crawling.runtime.lease_loop",
        right="            self._unanswered = replace(call, tries=call.tries + 1)\n",
        wrong="            self._unanswered = None\n",
        test="integration/crawler/test_lease_loop.py::told_in_vain",
    ),
    "a late answer makes a young grant": Bug(
        module="crawling.runtime.lease_loop",
        right="        if call.tries > 1:",
        wrong="        if call.tries > 99:",
        test="integration/crawler/test_lease_loop.py::first_try",
    ),
    "a worker that drains starts what it is granted": Bug(
        module="crawling.runtime.lease_loop",
        right=("            self._leases.release_unsent()\n        else:"),
        wrong=("            pass\n        else:"),
        test="integration/crawler/test_lease_loop.py::drains",
    ),
    "START_BY is ignored": Bug(
        module="crawling.lease.leases",
        right="if self._age_of(page) > START_BY_S:",
        wrong="if self._age_of(page) > FENCE_S:",
        test="unit/crawler/lease/test_leases.py::half_a_second",
    ),
    "a frozen process writes to its connection": Bug(
        module="crawling.lease.leases",
        right="page.phase is Phase.CONNECTING and self._age_of(page) < FENCE_S",
        wrong="page.phase is Phase.CONNECTING",
        test="unit/crawler/lease/test_leases.py::frozen",
    ),
    "a seed is moved to its clean URL": Bug(
        module="crawling.response.redirects",
        right='entry.method == "GET" and entry.origin is None',
        wrong='entry.method == "GET"',
        test="unit/crawler/robots/test_verdicts.py::somebody_wants",
    ),
    "words for any agent come first": Bug(
        module="crawling.robots.words",
        right="self._groups.get(agent.lower()) or self._groups.get(ANY_AGENT)",
        wrong="self._groups.get(ANY_AGENT) or self._groups.get(agent.lower())",
        test="unit/crawler/robots/test_words.py::for_the_agents",
    ),
    "a request leaves after the hours of its site": Bug(
        module="crawling.lease.leases",
        right="if is_too_late or not (is_granted",
        wrong="if not (is_granted",
        test="unit/crawler/robots/test_verdicts.py::after_the_hours",
    ),
    "word that is old is good enough to send": Bug(
        module="crawling.lease.leases",
        right="is_granted and self.may_send(page, _contact_s(page))",
        wrong="is_granted and self.may_send(page)",
        test="unit/crawler/lease/test_last_contact.py::took_long",
    ),
    "a restart of Redis is no news": Bug(
        module="crawling.lease.last_contact",
        right="is_same = self._redis_epoch in {None, redis_epoch}",
        wrong="is_same = True",
        test="unit/crawler/lease/test_last_contact.py::restarted",
    ),
    "an exchange is unbounded": Bug(
        module="crawling.lease.pending_report",
        right="if settles and links + more > LINKS_PER_EXCHANGE:",
        wrong="if False:",
        test="unit/crawler/lease/test_leases.py::bounded",
    ),
    "a spilled page ends before Kafka has its links": Bug(
        module="crawling.lease.leases",
        right=(
            "            self._move(page, Phase.SPILLING)\n            self.spiller.begin(page, settle)"
        ),
        wrong="            self.spiller.begin(page, settle)\n            self._end(page, settle)",
        test="unit/crawler/lease/test_spill.py::",
    ),
    "a page whose links cannot be spilled ends": Bug(
        module="crawling.publish.spill",
        right="self._leases.spilled(page, Release(token=page.token, sent_ms=page.sent_ms))",
        wrong="self._leases.spilled(page, replace(settle, links=()))",
        test="unit/crawler/lease/test_spill.py::without_its_links",
    ),
    "a page settles before Kafka has its links to other partitions": Bug(
        module="crawling.publish.link_sender",
        right="            await asyncio.shield(batch.sent)\n",
        wrong="            await asyncio.sleep(0)\n",
        test="unit/crawler/publish/test_link_sender.py::needs_them",
    ),
    "a page does not need what it has sent to other partitions": Bug(
        module="crawling.publish.link_sender",
        right="need=dict(self._topic.needs)",
        wrong="need={}",
        test="unit/crawler/publish/test_link_sender.py::needs_them",
    ),
    "a lost partition asks its sites at once": Bug(
        module="crawlstream_frontier.opening.startup_check",
        right='layout, is_lost = Layout(partitions=partitions.number), missing_are == "lost"',
        wrong="layout, is_lost = Layout(partitions=partitions.number), False",
        test="integration/partitions/test_start.py::loses_its_data",
    ),
    "an ending that was forgotten is told without what partitions had counted": Bug(
        module="crawlstream_frontier.partitions.confirm",
        right="if report.kept_run == run.run:",
        wrong="if report.kept_run < 0:",
        test="integration/frontier/partitions/test_coordinators_that_go_back.py::with_all_counters",
    ),
    "the next run has the counters of the last": Bug(
        module="crawlstream_frontier.partitions.confirm",
        right="if report.kept_run == run.run:",
        wrong="if report.kept_run:",
        test="integration/frontier/partitions/test_coordinators_that_go_back.py::next_is_open",
    ),
    "the word of one partition is taken for that of another": Bug(
        module="crawling.lease.leases",
        right="        return self._of(page).contact.came_within(within_s)",
        wrong="        return self.is_in_contact",
        test="unit/crawler/lease/test_partitions.py::silent",
    ),
    "a dead letter takes its secrets abroad": Bug(
        module="redis_monitor.dead_letters",
        right="        left_out |= _CREDENTIALS",
        wrong="        pass",
        test="unit/redis_monitor/test_dead_letters.py::credentials",
    ),
    "a redirect takes its secrets abroad": Bug(
        module="crawling.response.redirects",
        right="return followed if may_follow(target, entry.url) else _abroad(followed)",
        wrong="return followed",
        test="unit/crawler/response/test_redirects.py::abroad",
    ),
    "a span shows the query of its URL": Bug(
        module="crawlstream_traces.context",
        right="(?:[^/?#]*@)?([^?#]*)",
        wrong="(?:[^/?#]*@)?([^#]*)",
        test="unit/traces/test_context.py::secrets",
    ),
    "a trace that its client does not sample is continued": Bug(
        module="crawlstream_traces.context",
        right="if found and is_sampled else None",
        wrong="if found else None",
        test="unit/traces/test_context.py::any_other",
    ),
    "a redirect leads out of the scope of its crawl": Bug(
        module="crawling.response.redirects",
        right="    if target is None or rules.refuse(page, target):\n",
        wrong="    if target is None:\n",
        test="unit/crawler/links/test_scope.py::as_a_link_is",
    ),
    "a chain of redirects has no end": Bug(
        module="crawling.response.redirects",
        right=('    if len(chain) > MAX_REDIRECTS:\n        return "too_many_redirects"\n'),
        wrong="",
        test="unit/crawler/response/test_redirects.py::long_chain",
    ),
    "a seed's headers go to other domains": Bug(
        module="crawling.page.scrapy_request",
        right="headers = _lowered(profile.headers or {}) if at_home else {}",
        wrong="headers = _lowered(profile.headers or {})",
        test="unit/crawler/page/test_requests.py::own_domain",
    ),
    "what a middleware asks for ends its line": Bug(
        module="crawling.page.scrapy_request",
        right="self._url = address(url)",
        wrong="self._url = url",
        test="unit/crawler/page/test_requests.py::for_the_address",
    ),
    "a page is another one in another spelling": Bug(
        module="crawlstream.model.url",
        right='return clean, _identity(clean) if "&" in rest else clean, domain',
        wrong="return clean, clean, domain",
        test="unit/crawler/page/test_requests.py::come_in_once",
    ),
    "an entry chooses its proxy": Bug(
        module="crawling.page.scrapy_request",
        right="if key not in OF_THE_DOWNLOADER",
        wrong="if key",
        test="unit/crawler/page/test_requests.py::choose_its_way",
    ),
    "one public address lets the internal one beside it pass": Bug(
        module="crawlstream.boot.addresses",
        right='raise AddressRefused(f"{_meant(each)} is not a public address")',
        wrong="continue",
        test="unit/crawler/net/test_address_guard.py::one_internal",
    ),
    "an opened range wins over a denied one": Bug(
        module="crawlstream.boot.addresses",
        right="if self.denied and (_within",
        wrong="if self.denied and not self.opened and (_within",
        test="unit/crawler/net/test_address_guard.py::denied_range",
    ),
    "a grant pays for any site": Bug(
        module="crawling.lease.sites",
        right="return self.site_of(lease.partition, url) == lease.domain",
        wrong="return True",
        test="unit/crawler/engine/test_granted.py::its_site_alone",
    ),
    "a 429 for robots.txt allows everything": Bug(
        module="crawling.robots.robots_book",
        right="is_there or status == 429 or status >= 500:",
        wrong="is_there or status >= 500:",
        test="unit/crawler/robots/test_robots.py::refuses",
    ),
    "a denied pattern is followed": Bug(
        module="crawling.links.scope",
        right="return not (self._deny and self._deny.found_in(url))",
        wrong="return True",
        test="unit/crawler/links/test_links.py::left_out",
    ),
    "the recorder blames a page that only waits": Bug(
        module="crawling.page.flight_recorder",
        right=(
            "            finally:\n"
            "                self._recorder.clear(self._page)\n"
            "            try:"
        ),
        wrong=("            finally:\n                pass\n            try:"),
        test="unit/crawler/page/test_flight_recorder.py::waits",
    ),
    "a living process loses its slot": Bug(
        module="crawling.page.flight_recorder",
        right="fcntl.LOCK_EX | fcntl.LOCK_NB",
        wrong="fcntl.LOCK_SH | fcntl.LOCK_NB",
        test="unit/crawler/page/test_flight_recorder.py::living",
    ),
    "our own waiting counts against a page": Bug(
        module="crawling.publish.deadlines",
        right="if not each.page.publishing and (age_s",
        wrong="if (age_s",
        test="unit/crawler/publish/test_deadlines.py::our_own",
    ),
    "what a restart has lost is known": Bug(
        module="crawlstream_frontier.worker.link_cache",
        right="            self._young, self._old, self._size = {}, {}, 0",
        wrong="            self._size = 0",
        test="integration/frontier/intake/test_link_cache.py::latest_second",
    ),
    "what a cap refused is known": Bug(
        module="crawlstream_frontier.worker.session",
        right="gone | lost | no_room | texts(answer.capped)",
        wrong="gone | lost | no_room",
        test="integration/frontier/intake/test_link_cache.py::cap_refused",
    ),
    "a settle with known links names no epoch": Bug(
        module="crawlstream_frontier.worker.link_packer",
        right="epoch = self._link_cache.redis_epoch if known else None",
        wrong="epoch = None",
        test="integration/frontier/intake/test_link_cache.py::latest_second",
    ),
    "known links grow without bound": Bug(
        module="crawlstream_frontier.worker.link_cache",
        right="if self._size >= self._generation:",
        wrong="if False:",
        test="integration/frontier/intake/test_link_cache.py::oldest",
        red_by=("ValueError",),  # nothing to unpack
    ),
    "what is answered is only acknowledged": Bug(
        module="crawlstream_frontier.streams",
        right="                pipe.xdel(stream, *ids)\n",
        wrong="",
        test="integration/frontier/test_streams.py::answered_is_gone",
    ),
    "the dead's work is left": Bug(
        module="crawlstream_frontier.streams",
        right="            if left_over:\n",
        wrong="            if False:\n",
        test="integration/frontier/test_streams.py::work_of_the_dead",
    ),
    "reading begins behind what was not told": Bug(
        module="crawlstream_frontier.positions",
        right="return min([position, again, *untold_in(refused)])",
        wrong="return min([position, again])",
        test="integration/kafka_monitor/test_order_of_effects.py::refuses_is_told",
    ),
    "only the partition that is restored is behind": Bug(
        module="crawlstream_frontier.positions",
        right="behind = {**loss.behind, ",
        wrong="behind = {",
        test="integration/frontier/runs/test_endings.py::nobody_has_begun",
    ),
    "a caller bears out more time than has passed": Bug(
        module="crawlstream_frontier.reckoning",
        right="if reckoning_ms and (is_old or ahead_ms >= self._ahead_ms):",
        wrong="if reckoning_ms and is_old:",
        test="integration/frontier/politeness/test_clock.py::",
    ),
    "a hidden header is shown": Bug(
        module="rest_service.http.hiding",
        right='("request_headers", "response_headers")',
        wrong='("request_headers",)',
        test="unit/rest/test_keys.py::hidden",
    ),
    "a rejected request is shown to all": Bug(
        module="rest_service.http.hiding",
        right='        shown |= {"raw": None, "raw_hidden": True}',
        wrong='        shown |= {"raw_hidden": True}',
        test="unit/rest/test_keys.py::hidden or secrets_are",
    ),
    "a key of an application has the cluster": Bug(
        module="rest_service.http.gate",
        right="if client.appids and needed is not Role.ANYONE and not is_of_applications(path):",
        wrong="if False:",
        test="unit/rest/test_access.py::applications",
    ),
    "a form may do what its route may not": Bug(
        module="rest_service.http.access",
        right="    path = path.removeprefix(FORMS)\n    return _NEEDED",
        wrong="    if path.startswith(FORMS):\n        return Role.READ\n    return _NEEDED",
        test="unit/rest/test_access.py::each_role",
    ),
    "lines of a log are for everybody": Bug(
        module="crawlstream.wire.views",
        right='    del told["pipelines"], told["activity"]["tail"]',
        wrong='    del told["pipelines"]',
        test="unit/wire/test_views.py::process",
    ),
    "a role may do what the next one may": Bug(
        module="rest_service.http.gate",
        right="if client.role < needed:",
        wrong="if client.role < needed - 1:",
        test="unit/rest/test_access.py::each_role",
    ),
    "an error of the setting tells the secret": Bug(
        module="crawlstream.boot.api_keys",
        right='f"key {number} does not have the form',
        wrong='f"key {text} does not have the form',
        test="unit/rest/test_keys.py::other_forms",
    ),
    "a key tells its secret": Bug(
        module="crawlstream.boot.api_keys",
        right=", repr=False)",
        wrong=")",
        test="unit/rest/test_keys.py::tells_nothing or secret",
    ),
}
BUGS |= STAGE_BUGS | EGRESS_BUGS | RECURRING_BUGS | SINK_BUGS | VISIT_BUGS | SHELF_BUGS
BUGS |= SCRAPE_BUGS
BUGS |= SCORE_BUGS
BUGS |= AGENT_BUGS

"""Bugs on purpose in what recurs: schedules, and the files that they feed."""

from __future__ import annotations

from mutation.bug import Bug

RECURRING_BUGS = {
    "where a seed leads is deduplicated like a link": Bug(
        module="crawling.response.redirects",
        right=" or entry.origin is not None",
        wrong="",
        test="unit/crawler/response/test_redirects.py::whole_chain",
    ),
    "a firing that has begun is left amid its seeds": Bug(
        module="redis_monitor.schedules.plan",
        right="if state.begun > after:",
        wrong="if state.begun > now:",
        test="unit/redis_monitor/test_schedule_plan.py::what_has_begun",
    ),
    "a file is named that lies elsewhere": Bug(
        module="crawlstream.model.recurring.seed_files",
        right="if name != url and _NAME.fullmatch(name):",
        wrong="if name != url:",
        test="unit/wire/test_schedules.py::only_files_below",
    ),
    "a link leads out of the folder": Bug(
        module="crawlstream.store.store",
        right="if not (real.is_file() and real.is_relative_to(folder)):",
        wrong="if not real.is_file():",
        test="unit/store/test_store.py::outside",
    ),
    "a file feeds another application": Bug(
        module="crawlstream.wire.request_tables",
        right="if problems := seed_problems(seed):",
        wrong='if problems := [] if "url" in seed else seed_problems(seed):',
        test="unit/wire/test_schedules.py::line_that_is_no_seed",
    ),
    "other seeds have the numbers of those before": Bug(
        module="crawlstream_frontier.schedules",
        right="edition * MOST_SEEDS",
        wrong="edition * 0",
        test="integration/frontier/test_schedules.py::seeds_that_change",
    ),
}

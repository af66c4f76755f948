"""Bugs on purpose in crawls with a score: what workers count, and what links start from."""

from __future__ import annotations

from mutation.bug import Bug

SCORE_BUGS = {
    "links below a promoted page are preferred as well": Bug(
        module="crawling.links.children",
        right="self._own = unpromoted(self._own)",
        wrong="self._own = self._own + 0",
        test="unit/crawler/links/test_scored.py::before_a_promotion",
    ),
    "priorities of a crawl with a score are exact": Bug(
        module="crawling.links.children",
        right="priority = in_tens(priority)",
        wrong="priority = priority + 0",
        test="unit/crawler/links/test_scored.py::before_a_promotion",
    ),
    "targets of redirects are counted": Bug(
        module="crawling.links.children",
        right="linked=self._linked if counts else 0",
        wrong="linked=self._linked",
        test="unit/crawler/links/test_scored.py::before_a_promotion",
    ),
    "a worker sends its second link": Bug(
        module="crawlstream_frontier.worker.link_cache",
        right="is_third = not is_second and not",
        wrong="is_third = is_second or not",
        test="integration/frontier/intake/test_link_cache.py::with_a_score_are_counted",
    ),
    "a worker sends its fourth link": Bug(
        module="crawlstream_frontier.worker.link_cache",
        right="is_third = not is_second and not _is_in(known, thrice)",
        wrong="is_third = not is_second",
        test="integration/frontier/intake/test_link_cache.py::with_a_score_are_counted",
    ),
    "links of a promoted page are remembered": Bug(
        module="crawlstream_frontier.worker.link_cache",
        right="if group.linked != FOUND_EARLY:",
        wrong="if group.linked != FOUND_AGAIN:",
        test="integration/frontier/intake/test_link_cache.py::promoted_page_are_not_remembered",
    ),
    "links of a promoted page are like others": Bug(
        module="crawling.links.children",
        right="FOUND_EARLY if is_promoted(self._own) else FOUND",
        wrong="FOUND if is_promoted(self._own) else FOUND",
        test="unit/crawler/links/test_scored.py::before_a_promotion",
    ),
    "both entries of a promoted page are moved": Bug(
        module="crawlstream_frontier.moving.unloading",
        right="state = 0 if mark[0] in domain.moved else state",
        wrong="state = state + 0",
        test="integration/frontier/partitions/test_moving.py::promoted_pages_are_moved_once",
    ),
}

"""Bugs on purpose in who carries chunks, and in how often Redis is called."""

from __future__ import annotations

from mutation.bug import Bug

SHELF_BUGS = {
    "a chunk that is missing is forgotten while others are asked for": Bug(
        module="crawlstream_frontier.shelves.stocking",
        right="for id_, since in self._missing.items() if since > long_ago}\n",
        wrong="for id_, since in self._missing.items() if since < long_ago}\n",
        test="integration/frontier/shelves/test_outer_shelf.py::several_lost_chunks",
    ),
    "a chunk is lost at first sight": Bug(
        module="crawlstream_frontier.shelves.stocking",
        right="if time.monotonic() - since < self._lost_after_s:\n",
        wrong="if time.monotonic() - since < 0:\n",
        test="integration/frontier/shelves/test_outer_shelf.py::several_lost_chunks",
    ),
    "a slow Redis is called as often as ever": Bug(
        module="crawling.lease.pace",
        right="        self._took_s.append(took_s)\n",
        wrong="        self._took_s.append(0)\n",
        test="unit/crawler/lease/test_pace.py::slow_redis",
    ),
}

"""A budget of bytes for each domain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from crawlstream_chaos.facts.facts import TopicRecord
from interplay.story import RESULTS, Feature, Story

FEW = 3
"""Pages of a domain that may be in flight before its first one has ended."""


class DomainMaxBytes(Feature):
    """Allows one byte a domain and run: its first page spends it."""

    name = "domain_max_bytes"
    about = "the first page of a domain spends its budget; what was seen is forgotten with each run"

    def arrange(self, story: Story) -> None:
        """Request it."""
        story.request["domain_max_bytes"] = 1
        story.request["remember"] = 0
        story.forgets = story.spends_domains = True

    def expect(self, story: Story) -> Sequence[str]:
        """Each domain has a first page, and its other pages are skipped."""
        whole = [one for one in story.ended() if one.value["event"] == "crawl_finished"]
        return [fault for ending in whole for fault in _faults(story, ending)]


def _faults(story: Story, ending: TopicRecord) -> Sequence[str]:
    run, counters = ending.value["run"], ending.value["counters"]
    expected = story.expected()[story.ended().index(ending)]
    urls = [*expected.pages.elements(), *(url for url, _ in expected.failed.elements())]
    wanted = Counter(url.split("/")[2] for url in urls)
    ends = {
        (record.key, record.value["url"])
        for topic in (RESULTS, "events")
        for record in story.records(topic)
        if record.value.get("run") == run
        and (topic == RESULTS or record.value["event"] == "page_failed")
    }
    came = Counter(url.split("/")[2] for _, url in ends)
    found = [f"run {run}: nothing of {host} came" for host in wanted if not came[host]]
    if max(wanted.values(), default=0) > FEW and came.total() >= wanted.total():
        found.append(f"run {run}: the budget has stopped nothing: {counters}")
    if came.total() < wanted.total() and not counters["skipped"]:
        found.append(f"run {run}: nothing was skipped: {counters}")
    return found

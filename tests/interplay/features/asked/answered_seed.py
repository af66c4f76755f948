"""A seed whose client waits for a reply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from interplay.story import RESULTS, Feature, Story

REPLIES = "outbound_firehose"


class AnsweredSeed(Feature):
    """Wants a reply with the place of the seed's page."""

    name = "answer"
    about = "the seed is answered with the place of its result, or with the reason why it has none"

    def arrange(self, story: Story) -> None:
        """Ask for it."""
        story.request |= {"answer": "page", "uuid": _uuid(story)}

    def expect(self, story: Story) -> Sequence[str]:
        """Return the lacks of the replies: one that is missing, or names another record."""
        return [*_faults(story)]


def _uuid(story: Story) -> str:
    return f"answer-{story.number}"


def _faults(story: Story) -> Iterator[str]:
    told = [record.value for record in story.all_records(REPLIES)]
    replies = [reply for reply in told if reply.get("uuid") == _uuid(story)]
    pages = [reply for reply in replies if reply.get("action") == "page"]
    if not pages:
        yield f"no reply has come, but {replies}"
    results = {(r.partition, r.offset): r.value["id"] for r in story.all_records(RESULTS)}
    for reply in pages:
        if "reason" in reply:
            continue
        place = reply["partition"], reply["offset"]
        if results.get(place) != reply["id"]:
            yield f"{reply} names the record of {results.get(place)}"

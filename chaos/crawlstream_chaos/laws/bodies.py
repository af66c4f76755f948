"""The law of bodies that are not kept: by the site's own list of pages, on the topic and in stores.

All else that may have a body (previews, databases, other topics) has it from these records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from crawlstream_chaos.facts.facts import RESULTS, Facts


def no_banned_body(facts: Facts) -> Iterator[str]:
    """No body leaves a crawler that its page or its site forbids; all other pages keep theirs."""
    banned = {}
    for record in facts.records:
        value = record.value
        if record.topic != RESULTS or value["status_code"] != 200:
            continue
        url, dropped, ban = value["url"], value.get("dropped"), facts.bans.get(value["url"])
        if ban and value.get("has_body"):
            yield f"{url} is {ban}, and its body was published"
        elif dropped != ban:
            yield f"{url} is {ban or 'neither noindex nor reserved'}, and was dropped as {dropped}"
        if ban:
            banned[value["id"]] = ban
    for stored in facts.stores:
        for name in sorted(banned.keys() & stored.bodies):
            yield f"{stored.pipeline} has the body of the page {name}, which is {banned[name]}"


LAWS: Mapping[str, Callable[[Facts], Iterator[str]]] = {
    "no forbidden body leaves": no_banned_body,
}

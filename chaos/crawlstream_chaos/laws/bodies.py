"""The law of bodies that are not kept: by the site's own list of pages, on the topic and in stores.

All else that may have a body (previews, databases, other topics) has it from these records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from crawlstream_chaos.facts.facts import RESULTS, Facts


def no_banned_body(facts: Facts) -> Iterator[str]:
    """No body of a page that says ``noindex`` leaves a crawler; all other pages keep theirs."""
    banned = set()
    for record in facts.records:
        value = record.value
        if record.topic != RESULTS or value["status_code"] != 200:
            continue
        says = value["url"] in facts.noindex
        if says and (value.get("has_body") or value.get("dropped") != "noindex"):
            yield f"{value['url']} says noindex, and its body was published"
        if not says and value.get("dropped"):
            yield f"{value['url']} does not say {value['dropped']}, and has no body"
        if says:
            banned.add(value["id"])
    for stored in facts.stores:
        for name in sorted(banned & stored.bodies):
            yield f"{stored.pipeline} has the body of the page {name}, which says noindex"


LAWS: Mapping[str, Callable[[Facts], Iterator[str]]] = {
    "no body of a page with noindex leaves": no_banned_body,
}

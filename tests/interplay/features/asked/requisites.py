"""Images of pages, on a host of their own, for an archive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interplay.story import RESULTS, Feature, Story


class Requisites(Feature):
    """Has images of all pages requested besides them."""

    name = "requisites"
    about = "all pages have images on another host, which are archived"

    def arrange(self, story: Story) -> None:
        """Put them into all pages; the host of the images has a robots.txt that is not known."""
        story.request |= {"archive": True, "requisites": True}
        self._paths = {f"/{number}.png" for number in (1, 2)}
        story.markup = "".join(
            f'<img src="{story.url(path, story.images)}">' for path in self._paths
        )

    def expect(self, story: Story) -> Sequence[str]:
        """Return the pages that lack images; those without a body have none."""
        results = [record.value for record in story.records(RESULTS)]
        archived = [value for value in results if value["body_size"] and "html" in _type_of(value)]
        wrong = [
            f"{value['url']}: {value.get('requisites')}"
            for value in archived
            if (account := value.get("requisites")) is None
            or account["missing"]
            or account["came"] + account["known"] != len(self._paths)
        ]
        came = {visit.path for visit in story.visits}
        return wrong if came >= self._paths or not archived else [*wrong, "no image was requested"]


def _type_of(value: Mapping[str, Any]) -> str:
    return str(value["response_headers"].get("Content-Type"))

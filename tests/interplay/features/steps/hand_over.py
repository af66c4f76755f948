"""Two spiders that hand pages to each other."""

from __future__ import annotations

from collections.abc import Sequence

from interplay.story import Feature, Story


class HandOver(Feature):
    """Each of two spiders hands all its links to the other."""

    name = "hand-over"
    about = "pages of even and odd depth belong to two spiders, lists and items"
    rank = 40

    def arrange(self, story: Story) -> None:
        """Have them crawl the pages."""
        story.pages_spider = "lists"

    def expect(self, story: Story) -> Sequence[str]:
        """Return the pages that the wrong spider parsed."""
        wrong = []
        first = 1 if story.spiderid == "sitemap" else 0
        for record in story.records("crawled_firehose"):
            page = record.value
            if page["depth"] >= first:
                by = ("lists", "items")[(page["depth"] - first) % 2]
                if page["attrs"] != {"by": by}:
                    wrong.append(f"{page['url']} is for {by}, but {page['attrs']} parsed it")
        return wrong

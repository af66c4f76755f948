"""A limit of pages for each domain."""

from __future__ import annotations

from interplay.story import Feature, Story


class DomainMaxPages(Feature):
    """Allows two pages a domain and run."""

    name = "domain_max_pages"
    about = "two pages of a domain at most; what was counted is forgotten with each run"

    def arrange(self, story: Story) -> None:
        """Ask for it."""
        story.most_per_host = story.request["domain_max_pages"] = 2
        story.request["remember"] = 0
        story.forgets = True

"""Remembers seen URLs over several runs."""

from __future__ import annotations

from interplay.story import Feature, Story


class Remember(Feature):
    """Remembers pages for an hour, and is fed twice."""

    name = "remember"
    about = "pages are remembered for an hour; the seed is fed again after the run"

    def arrange(self, story: Story) -> None:
        """Ask for it."""
        story.request["remember"] = 3600
        story.rounds = max(story.rounds, 2)

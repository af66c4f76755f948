"""Forgets the URLs of a run when it has finished."""

from __future__ import annotations

from interplay.story import Feature, Story


class Forget(Feature):
    """Remembers nothing, and is fed twice."""

    name = "forget"
    about = "nothing is remembered; the seed is fed again after the run"

    def arrange(self, story: Story) -> None:
        """Ask for it."""
        story.request["remember"] = 0
        story.forgets = True
        story.rounds = max(story.rounds, 2)

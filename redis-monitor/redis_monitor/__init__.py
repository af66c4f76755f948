"""Redis monitor: answers, endings, and the care of the frontier."""

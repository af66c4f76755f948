"""Generated sites: traps without an end, and honest sites that look like traps."""

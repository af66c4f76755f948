"""The worker process: its parts, its exchanges with the frontier, its end."""

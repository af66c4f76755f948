"""The life of the process: its parts, its exchanges with the frontier, its end."""

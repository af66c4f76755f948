"""The cluster of one machine: its servers and processes under supervisor, and their home."""

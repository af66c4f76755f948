"""Results as files: segments of a partition, each claimed once, put whole."""

"""What was seen of a cluster under faults."""

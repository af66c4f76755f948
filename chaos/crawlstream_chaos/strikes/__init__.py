"""Actions of faults: on processes, on Redis and its partitions, on Kafka's log."""

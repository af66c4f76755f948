"""What faults do: to processes, to Redis and its partitions, to Kafka's log."""

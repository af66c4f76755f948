"""Records in and out: Kafka on its own threads, lists across the bridge."""

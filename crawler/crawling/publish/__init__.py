"""From a result to the end of its page: bodies stored, the record in Kafka, the end owed."""

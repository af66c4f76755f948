"""From a result to the end of its page: body stored, record in Kafka, settle pending."""

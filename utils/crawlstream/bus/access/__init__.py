"""Rights that processes need in Kafka, and refusals as sentences."""

"""Kafka monitor: requests from Kafka into the frontier."""

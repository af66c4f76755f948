"""Between requests and Kafka: what is fed, and the replies that come back."""

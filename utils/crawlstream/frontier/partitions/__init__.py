"""A frontier of several partitions: which of them to ask, and how to ask all of them at once."""

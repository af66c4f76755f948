"""The Redis servers of a process that works with a frontier of several partitions."""

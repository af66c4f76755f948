"""A frontier of several partitions: what they and the homes of crawls tell each other."""

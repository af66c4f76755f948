"""The rules of politeness: read from ZooKeeper, watched, edited."""

"""The throttle rules, from their edit to the frontier.

From an edit to a rule
    A person, a ``zookeeper`` request or any tool writes YAML into one ZooKeeper node (``edit``).
    redis-monitors watch the node (``watch``), read it strictly (``parse``) and copy the table into
    Redis, fenced by its version. Rules are applied only there. :mod:`crawlstream.zoo` reads,
    watches and writes the node.
"""

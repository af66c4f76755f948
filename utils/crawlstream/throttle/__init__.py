"""The throttle rules on their way from a person's hand to the frontier.

A rule's way
    A person, a ``zookeeper`` request or any tool writes YAML into one node of ZooKeeper
    (``edit``). redis-monitors watch the node (``watch``), read it strictly (``parse``) and copy
    the table into Redis, fenced by its version; there, and only there, it is applied. Reading,
    watching and writing the node is :mod:`crawlstream.zoo`'s.
"""

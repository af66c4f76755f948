"""Chaos: faults in a whole cluster while it crawls, and an auditor of what became of the pages.

``runner``      plays scenarios one round after the other, for ``crawlstream chaos``
``scenarios``   the table of what is done in a round; ``scripts`` has it step by step
``rounds``      one round: feed a crawl, inject faults while its pages wait, let it end, judge
``nemesis``     every fault by its name; ``strikes`` has those that take more than a few lines
``faults``      what a fault is, what it is given, and what it says it did
``cluster``     a cluster of its own whose servers can be struck; ``proxy`` is a bad network,
                ``observed`` the frontier past it
``processes``   servers and crawlers that can be killed, frozen and started again
``witness``     a plain Kafka client that feeds a cluster and reads every topic; ``recorder`` adds
                where and when, Kafka's files on disk, and the site's access log
``facts``       what was seen; ``laws`` judge nothing else, and ``laws.auditor`` applies them
``report``      the table for people, ``chaos-report.json`` for programs

``laws.frontier`` reads every key of a frontier, ``kafka_log`` cuts Kafka's files.
``scripted_site`` serves what a program tells it to, ``hostile_pages`` what a malicious site might.
Tests and benchmarks use these too.

What is always true: the auditor asks no process of the cluster what it did. It compares what was
fed, what any Kafka client can read, Kafka's files, the site's access log and the ledger in Redis.
"""

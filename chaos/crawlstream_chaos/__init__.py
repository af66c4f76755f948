"""Chaos: faults in a whole cluster while it crawls, and an auditor of the results.

``runner``      plays scenarios one round after the other, for ``crawlstream chaos``
``scenarios``   the table of scenarios; ``scripts`` has their steps
``rounds``      one round: feed a crawl, inject faults while its pages wait, let it end, judge
``nemesis``     every fault under its name; ``strikes`` has those that take more than a few lines
``faults``      the interface of a fault: its input, and the effect that it reports
``cluster``     a cluster of its own whose servers can be struck; ``proxy`` is a bad network,
                ``observed`` the frontier past it
``processes``   servers and crawlers that can be killed, frozen and started again
``witness``     a plain Kafka client that feeds a cluster and reads every topic; ``recorder`` adds
                where and when, Kafka's files on disk, and the site's access log
``facts``       observations; ``laws`` judge nothing else, and ``laws.auditor`` applies them
``report``      the table for people, ``chaos-report.json`` for programs

``laws.invariants`` reads every key of a frontier, ``kafka_log`` cuts Kafka's files.
``stores`` are servers of pipelines, and configurations of servers that are struck.
``scripted_site`` serves pages that a program defines, ``hostile_pages`` those of a malicious site.
Tests and benchmarks use these too.

Invariant: the auditor requests nothing from the processes of the cluster. It compares fed requests,
records that any Kafka client can read, Kafka's files, the site's access log and the ledger in
Redis.
"""

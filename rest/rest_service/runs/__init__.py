"""The runs of a crawl that Kafka stores, and the changes from one to another.

Redis has only the latest run of a crawl. The events topic has the start and end of every run, the
results topic its pages, both for the retention time of their records.
"""

"""The runs of a crawl as Kafka remembers them, and what changed from one to another.

Redis knows a crawl's latest run only. The events topic has the beginning and the ending of every
run, the results topic its pages, both for as long as their topics keep records.
"""

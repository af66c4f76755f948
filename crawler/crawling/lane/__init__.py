"""The fetch lane: a page's whole way through this process in one task.

``lane`` fetches, parses and publishes a page and brings it to its end, by the same rooms that
Scrapy's engine calls; ``eligibility`` says whether a spider may take it, ``loop_turns`` lets pages
on the CPU one by one.
"""

"""Scenarios that are more than faults in turn: a page that kills, proxies that fail."""

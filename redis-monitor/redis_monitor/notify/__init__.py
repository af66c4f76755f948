"""Notifications: a webhook and mail tell of crawls that end and of problems.

The life of a notice
    Each channel is a consumer group of its own on the events topic, shared by all redis-monitors:
    an ending is committed when the channel has taken it, so each is sent at least once, whoever
    dies in between, and a receiver that is away holds up nobody else. Problems are looked for by
    every redis-monitor and told by the one whose name comes first; nothing remembers them, so one
    that lasts is told again after a restart.

What a receiver refuses is tried again with growing pauses, for a day.
"""

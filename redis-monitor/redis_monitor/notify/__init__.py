"""Notifications: a webhook and mail report crawls that end, their data, and problems.

The life of a notice

    Each channel is a consumer group of its own on the events topic, shared by all redis-monitors:
    an event is committed when the channel has taken its notices, so each is sent at least once,
    also if a process dies in between, and an unavailable receiver delays no other. Every
    redis-monitor looks for problems, and the one whose name comes first reports them. They are not
    stored, so a problem that lasts is reported again after a restart.

    A notice that a receiver refuses is sent again with growing pauses, for a day.
"""

"""The dashboard: pages for people, rendered on the server and kept live by one small script.

The life of a screen
    A handler queries the cluster and fills a template: a page that is complete without scripts.
    The script then requests the same address as a stream of server-sent events, and receives the
    live part of the screen whenever it has changed, and new points of its charts. However many
    clients watch the same screen, it is queried and rendered once.

All text goes through templates that escape it, addresses of pages are shown and never linked, and
nothing is loaded from elsewhere: text of crawled sites and of clients that feed crawls is only
displayed. ``static/uplot`` is uPlot 1.6.32 as its makers publish it, with its licence.
"""

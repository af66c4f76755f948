"""The dashboard: pages for people, made here, kept live by one small script.

The life of a screen
    A handler asks the cluster and fills a template: a page, whole without any script. The script
    then asks for the same address as a stream of server-sent events, and gets the live part of the
    screen whenever it has changed, and new points of its charts. However many watch the same
    screen, it is asked for and rendered once.

All text goes through templates that escape it, addresses of pages are shown and never linked, and
nothing is loaded from elsewhere: what a crawled site, or whoever feeds crawls, has written is only
ever seen. ``static/uplot`` is uPlot 1.6.32 as its makers publish it, with its licence.
"""

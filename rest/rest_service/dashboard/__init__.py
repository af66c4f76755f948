"""The dashboard: pages for people, made here, kept live by one small script.

Every page is whole without the script. All text on it goes through a template that escapes it,
addresses of pages are shown and never linked, and nothing is loaded from elsewhere: what a crawled
site, or whoever feeds crawls, has written is only ever seen.
"""

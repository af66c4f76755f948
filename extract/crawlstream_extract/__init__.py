"""Extraction: texts, links and metadata of a page, for people, sinks and agents.

``extract``    the formats of one page: Markdown, text, cleaned HTML, links, metadata
``work``       the same in worker processes, for processes that must not fall with a page
``workers``    those processes, whatever job they do: time, memory and queue are limited there

``markup``     limits for markup, applied before any parser of pages
``page_tree``  a body as text, and as a tree
``tidy``       a page without hidden, active and surrounding elements; its links are absolute
``markdown``   a tidy page as Markdown or as plain text
``scan``       the text of a page without a parser, where a parser has failed silently
``cut``        texts within a limit
``metadata``   what a page says of itself
``page_links`` the links of a page
``pdf``        the text and the links of a PDF
``language``   the language of a text
``minhash``    a sketch of a text, by which similar ones are found
``sitemaps``   the entries of sitemaps and feeds, whose text ``sitemap_text`` reads in pieces
"""

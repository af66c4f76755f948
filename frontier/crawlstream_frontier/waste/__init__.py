"""The waste guard: finds families of a site's URLs whose pages bring nothing new.

Pages *vote* (``votes``). A *sketch* (``sketch``) sums up the votes of one site in at most 2 040
bytes: frequent texts, and a sample of all texts (``texts``); a sample of pages by their address
without one parameter (``pairs``); and counters of at most 20 families (``families``), from which
their verdicts follow (``judging``). ``packing`` has its format. Everything here is pure: the same
votes in the same order give the same sketch.

``last_band`` has the priorities of pages that wait for all others of their domain.

A sketch is a hint. Losing it costs requests, never pages.
"""

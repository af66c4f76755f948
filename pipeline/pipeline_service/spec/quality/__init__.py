"""How good the items of a run are: which fields are there, which are valid, which rules fail.

``counts``    numbers of fields, which add up whoever counts them
``expect``    what the file of the pipelines expects of them, and whether a run meets it
"""

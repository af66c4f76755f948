"""Quality of the items of a run: fields that are there, fields that are valid, rules that fail.

``counts``    numbers of fields, which add up over all processes
``expect``    bounds in the file of the pipelines, and whether a run meets them
"""

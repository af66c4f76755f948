"""A search index as a store without transactions: any server with the API of OpenSearch.

``connection``    requests to a server: JSON in and out
``mapping``       types of the fields of an index
``indexes``       the two indexes of a pipeline: made, checked and widened at the start
``index_texts``   texts that are replaced by their sequence numbers
``search_store``  documents in bulk requests, each with the version of its page
"""

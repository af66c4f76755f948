"""Links of documents other than pages.

``kinds``   which bodies are documents
``office``  links of office documents
``links``   the work of a worker process, which reads them and PDFs
"""

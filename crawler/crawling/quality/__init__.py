"""Evidence of pages that are not worth a request: families of URLs, texts, and canonical URLs."""

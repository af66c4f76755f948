"""URLs as the URL Standard defines them, directives of pages, purposes and modes of crawls."""

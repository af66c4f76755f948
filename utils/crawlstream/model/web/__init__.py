"""URLs as the URL Standard defines them, directives of pages, and purposes of crawls."""

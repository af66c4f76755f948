"""URLs as the URL Standard defines them, and directives of pages."""

"""URLs as the URL Standard defines them."""

"""The web's own words: URLs as its standard reads them."""

"""Requisites of pages: the images, styles, scripts and fonts that an archive needs to show them."""

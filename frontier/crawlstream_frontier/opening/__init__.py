"""Open a frontier: connect to its servers, check layout and settings, and identify its cluster."""

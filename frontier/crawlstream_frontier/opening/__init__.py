"""Opening a frontier: clients of its servers, their layout and settings, and whose it is."""

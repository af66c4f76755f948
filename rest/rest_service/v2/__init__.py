"""The routes of ``/v2``, and health."""

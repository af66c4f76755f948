"""The bundled site and the guided first crawl."""

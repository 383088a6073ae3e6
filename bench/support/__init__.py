"""support: to be described."""

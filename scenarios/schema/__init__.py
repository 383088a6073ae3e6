"""schema: to be described."""

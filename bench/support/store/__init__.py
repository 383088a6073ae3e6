"""store: to be described."""

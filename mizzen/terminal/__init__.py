"""terminal: to be described."""

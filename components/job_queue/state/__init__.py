"""state: to be described."""

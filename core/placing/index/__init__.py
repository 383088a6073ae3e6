"""index: to be described."""

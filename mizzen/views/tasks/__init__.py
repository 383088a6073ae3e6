"""tasks: to be described."""

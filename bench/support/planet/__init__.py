"""planet: to be described."""

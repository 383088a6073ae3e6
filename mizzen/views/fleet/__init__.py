"""fleet: to be described."""

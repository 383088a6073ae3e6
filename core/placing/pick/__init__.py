"""pick: to be described."""

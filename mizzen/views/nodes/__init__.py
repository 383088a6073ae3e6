"""nodes: to be described."""

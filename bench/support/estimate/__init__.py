"""estimate: to be described."""

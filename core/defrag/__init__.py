"""defrag: to be described."""

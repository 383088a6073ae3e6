"""logs: to be described."""

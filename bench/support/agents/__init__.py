"""agents: to be described."""

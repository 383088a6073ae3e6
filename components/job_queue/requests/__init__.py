"""requests: to be described."""

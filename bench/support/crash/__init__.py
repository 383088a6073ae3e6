"""crash: to be described."""

"""auction: to be described."""

"""actions: to be described."""

"""diagnosis: to be described."""

"""phrases: to be described."""

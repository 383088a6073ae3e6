"""play: to be described."""

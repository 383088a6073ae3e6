"""answers: to be described."""

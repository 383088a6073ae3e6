"""claims: to be described."""

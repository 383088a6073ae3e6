"""accounting: to be described."""

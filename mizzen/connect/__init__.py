"""connect: to be described."""

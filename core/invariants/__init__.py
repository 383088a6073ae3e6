"""invariants: to be described."""

"""quota: to be described."""

"""placement_store: to be described."""

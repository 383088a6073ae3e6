"""allocation_agent: to be described."""

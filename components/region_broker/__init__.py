"""region_broker: to be described."""

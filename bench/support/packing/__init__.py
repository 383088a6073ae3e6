"""packing: to be described."""

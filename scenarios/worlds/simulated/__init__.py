"""simulated: to be described."""

"""swarm: to be described."""

"""What operators set of a region: its agents, its pools, and preemption there."""

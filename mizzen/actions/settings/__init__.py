"""What operators set of a region: its agents, its pools, how nodes follow the needs of pools, and preemption there."""

"""preemption: to be described."""

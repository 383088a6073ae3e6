"""Makes components live: waits, listens, remembers, tells, acts. The only layer that awaits and knows a clock."""

"""Rules about a region's agents: valid settings, and requests for which node rows do not suffice."""

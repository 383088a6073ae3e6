"""The planner's solver: a process of its own, for what takes seconds and whole libraries."""

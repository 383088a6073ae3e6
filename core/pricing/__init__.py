"""What room on nodes is worth to the tasks that are expected to come: the problem that is solved for it, and tables of the answer."""

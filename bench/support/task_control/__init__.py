"""task_control: to be described."""

"""job_queue: to be described."""

"""Functions: the check of calls (`calls.py`)."""

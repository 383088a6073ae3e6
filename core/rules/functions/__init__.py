"""Functions: the checks of calls (`calls.py`) and of counts of calls (`counts.py`)."""

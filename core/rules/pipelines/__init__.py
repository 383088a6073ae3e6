"""Pipelines: by when each stage must start (`deadlines.py`), and the check of a submission (`submission.py`)."""

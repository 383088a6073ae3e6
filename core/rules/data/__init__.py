"""Rules of data: datasets and their places (datasets.py), copies and the bytes of a day (copies.py)."""

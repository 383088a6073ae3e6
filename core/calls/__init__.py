"""Calls of functions, as both ends count them: which numbers have come (`numbers.py`), and what a caller says and hears (`caller.py`)."""

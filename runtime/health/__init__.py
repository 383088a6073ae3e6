"""Whether a process of a plane is well: `serving.py` answers inside the process, and `check.py` is the program that asks."""

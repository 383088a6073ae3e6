"""Functions as their users see them: a decorated function, its calls and maps, and the session in which this process calls.

Read in this order: the decorator (`decorator.py`), the description of a function that goes with its calls (`description.py`), calls and
answers (`calls.py`), maps (`maps.py`), the thread that speaks with the plane (`session.py`, `speaker.py`), and maps from a file of inputs
into a directory of values (`map_files.py`).
"""

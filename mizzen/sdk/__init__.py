"""The directory that a worker puts on each task's `PYTHONPATH`: a package `mizzen` with all that training scripts import, and no more.

Any Python from 3.9 on imports that package without an installation: in a container, a conda environment or a virtual environment on
a node. Files in here use the standard library alone and the syntax of Python 3.9, and import each other relatively.
"""

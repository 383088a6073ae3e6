"""Executors of functions: real ones, forked from a warm parent, and emulated ones (`emulated.py`)."""

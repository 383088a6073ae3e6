"""Sorts of load, one file each, found by the file's name."""

"""Designs: one file each, found by its name (scenarios/parts.py)."""

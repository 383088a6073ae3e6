"""Designs: one file each, found by its name (scenarios/schema/parts.py)."""

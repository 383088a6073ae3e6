"""Keeps facts and promises how: the port, SQLite, and a memory log held to the same suite."""

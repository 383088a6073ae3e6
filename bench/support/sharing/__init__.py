"""Measures of sharing policies: measured speeds, jobs that are drawn, and the published figures that ours are held to."""

"""Processes that are kept running.

supervisor    starts processes again when they die or hang, and ends them in order
life_line     the pipe on which a process answers to its supervisor
process_log   the file that a process writes to, rotated while the process lives
"""

"""Puts a fleet, a load and misfortune before the whole plane, and checks what came of it."""

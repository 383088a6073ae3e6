"""The function router of a region: takes calls from callers and sends each to a function server. Keeps no log (docs/functions.md).

component.py decides, dispatching.py chooses the server of each waiting call by a policy of core/routing/, shown.py has the figures for
people and callers; state.py and notes.py are its memory.
"""

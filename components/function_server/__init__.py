"""The function server beside a worker: runs calls of functions on warm executors of its machine. Keeps no log (docs/functions.md).

component.py decides, assigning.py chooses the executor of each call, answering.py tells callers, reports.py tells routers; state.py and notes.py
are its memory.
"""

"""Executors of functions: real ones, forked from a warm parent, and emulated ones (`emulated.py`).

Read `doer.py` first: the real executors of one function server, on devices that `devices.py` chooses. `executor.py`, `pipes.py` and
`warm_parent.py` are the server's view of its processes, `parent.py` and `child.py` the processes, `wire.py` their words, `lifeline.py`
how the kernel ends them with their server, and `remains.py` how those are found that are left all the same. `packing.py` turns arguments and values into bytes, for callers too. Real executors need Linux.
"""

"""Parts of the spool of emulated tasks (runtime/spool.py).

pairs     shares that run on one device
lending   devices that tasks lend while these are idle
"""

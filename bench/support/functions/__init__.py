"""Calls of functions: in virtual time, drawn from a seed, for `mws`; and on real planes, through the SDK.

load       functions with Zipf rates, and the calls of a rate
region     one router and ten servers with emulated executors, and one caller: the shipped router and servers
plane      a real plane, on which a service holds cores for functions
programs   programs that call, each a process of its own
running    such processes, and the results that they tell
timed      results of `short_tasks`, of this and of other systems
tokens     counts of `functions_killed`
"""

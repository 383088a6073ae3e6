"""Calls of functions: in virtual time, drawn from a seed, for `mws`; and on real planes, through the SDK.

load       functions with Zipf rates, and the calls of a rate
stage      one router and servers with emulated executors, and one caller: the shipped router and servers
region     one run of calls at a rate on such a region, of ten servers of the same size unless the run says otherwise
capacity   the highest rate that such a region takes
plane      a real plane, on which a service holds cores for functions
programs   programs that call, each a process of its own
running    such processes, and the results that they tell
executors_seen
           executors of a real plane, and until when each was seen alive
timed      results of `short_tasks`, of this and of other systems
tokens     counts of `functions_killed`
"""

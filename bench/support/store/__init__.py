"""Parts of the benchmarks of the placement store and its log.

commit_plane         agents and one store as processes, and a driver in place of queue and broker: `commit`
conflict_detection   claims refused by sequence compared with claims refused by capacity: `commit`
region_history       an endless, repeatable log of a region: `log`
"""

"""Harvested capacity in virtual time: machines whose size changes, run by the shipped router, servers, executors and device books.

machines   the books of such machines, and the harvester's side: sizes and odds, said as it says them
sizes      core counts of harvested workers over time: the trace of SOSP'21, or drawn like it
sized      a run of calls at a rate on such workers
lengths    run times of calls, as long as those of Azure's functions
evicted    calls on workers that are evicted whole
lending    calls on devices that inference pods lend while they are idle
finders    routing without a set, for comparison
planet_day facts of a planet whose regions lend what is free
"""

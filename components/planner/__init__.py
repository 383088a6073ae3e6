"""The planner: slow optimisation, apart from scheduling decisions.

The planner keeps no log. Each concern is a loop of its own: when what the logs show is old, the solver is asked, and its answer is sent to
the keeper that records it, until that log shows it, or another. A planner that restarts only solves again. Of two planners the first wins,
because an answer carries the revision that follows the one it replaces.

component.py   what the host runs
state.py       what the planner remembers
prices.py      the value of each region's capacity to expected tasks
shares.py      the shares of jobs of shared pools
"""

"""The planner: slow optimisation, apart from scheduling decisions.

The planner keeps no log. It has concerns, one file each, on one loop: when an answer in the logs is old, the solver is asked, and the
new answer is sent to the keeper that records it, until that log shows it, or another. No concern waits for another. A planner that
restarts only solves again. Of two planners the first wins, because an answer carries the revision that follows the one it replaces.

component.py   the component that the host runs
loop.py        the loop, and the protocol of a concern
concerns/      the concerns
state.py       the state of the planner
"""

"""Which nodes belong to which pool: the problem in counts of like nodes, and the choice of nodes for an answer.

source    RAS (SOSP'21), spec/mast-twine.md §6

problem.py   the problem that a solver is asked, and its answer
classes.py   classes of like nodes in a region's image
choice.py    the nodes that move, for an answer in counts
"""

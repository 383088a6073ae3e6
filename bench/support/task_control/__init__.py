"""Parts of the benchmark `task_control`, which plays Twine's figure 14: a release during a power loss.

setup     the service of the figure: shards, replicas, zones, and the switchboard that fails
model     a region's rules for one service, without a plane
plane     the figure on a whole simulated plane
figures   draws docs/results/task_control.svg
"""

"""Parts of the packing benchmarks: lists of pods placed one by one on a cluster of a published trace.

openb    lists of nodes and pods in the form of the trace, and the published results
small    a small drawn cluster and list, for machines without the trace
region   one agent and one placement store that exchange messages at once
prices   prices learned and solved again as a planner would
run      one list offered once to one region, and many such runs side by side
page     a figure and the table of the results page, made from kept runs
"""

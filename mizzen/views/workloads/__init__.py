"""Views of workloads: the queue's listing, and the history and explanation of one workload.

queue_lines         `mizzen queue`: pending and running workloads, with a reason for each that waits
start_estimates     `mizzen queue --start` and `mizzen submit --test-only`: estimated starts with their bands
story               one workload folded from its own facts in all logs, even after every image has forgotten it
lookup              the story beside the queue's current answer; either may be missing
end_causes          the chain of facts that led to an attempt's end
region_answers      each region's bid or refusal
rank_nodes          the nodes on which each rank of a job has run
placement_choice    the choice of nodes, repeated on the region's log at the claim's view
explain             `mizzen explain`: why a workload waits, runs where it runs, or ended
show_text           `mizzen show`: a story as text and as JSON
tenant_view         both commands for tenants, from the queue's answers alone
"""

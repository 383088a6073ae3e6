"""Views of nodes: their states and occupants, and the progress of drains and maintenance.

occupants        the tasks on each node, and what each waits for before it leaves a drained node
node_states      open, or the closures of a node and their end
node_table       `mizzen nodes`: free capacity and occupants, by groups of like nodes or by node
drain_progress   the progress of a drain or a maintenance, rack by rack, as a pure function of the image
drain_text       drain progress as text, with the tasks that need attention first
drain_watch      drain progress read from a running plane, once or until the nodes are empty
"""

"""What the keeper of a log minds beside its decisions.

single_keeper      before its start: no other keeper answers for the log
log_dependencies   facts of other logs that the log rests on
clock_guard        the machine's clock, which the log's time follows
"""

"""Views of a workload's tasks: where each runs, which operation it waits for, and its output.

operation_waits    the reason for which an operation has not begun
task_table         the tasks of one attempt as table rows
task_list          `mizzen tasks`: the tasks of a workload, once or until it ends
controller_table   `mizzen controllers`: task controllers and when each last answered
output             `mizzen logs` for operators: output of tasks, found by the logs, over all restarts
tenant_output      `mizzen logs` for tenants, who may not read logs: output found by asking the workers
"""

"""Requests that change a plane: each module sends the requests of some commands and puts the answers into words.

A request with a revision or an epoch names the state that was read, and is repeated if another request came first.

workloads           cancel, hold, release, requeue, set a priority
workload_batch      the form of these five commands: ids in, one line each out
submit              submit a workload under a key, test a submission, wait for the end
workload_changes    update a workload from a job file, or resize one of its jobs
move                move a workload to another region
task_operations     restart or move single tasks, and report what each operation waits for
task_options        the form of `mizzen restart` and `mizzen move` for tasks
node_scopes         turns named nodes, racks, zones and pools into a scope of one region, with every problem at once
time_windows        start times and spans as operators write them, such as `in 2h`
nodes               drain and undrain nodes, plan and cancel maintenance, release nodes from quarantine
node_text           the result of a request about nodes, in one or two lines
node_progress       drain progress for `mizzen drain` and `mizzen maintain`, once or until the end
defrag              make a defragmentation plan, and execute one
defrag_text         a defragmentation plan and its execution as text
pools               set a pool's rules, reserve, limit and needs
pooling             set the policy for plans of pools, and apply a plan
preemption          set preemption settings of one region or of all
quotas              set a tenant's level, entitlements and budget
ranking             read and set the queue's ranking rules, and a table of them beside those of MAST's paper
sharing             set the policy of shared pools
datasets            list datasets, and set the regions that hold one
regions             list regions, abandon and readmit one
"""

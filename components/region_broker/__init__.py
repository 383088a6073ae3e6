"""Role of the region broker: which commands the region's workers get, which agent gets each request, which workers are lost.

component        the broker itself: requests of the queue to agents, reports of workers, and all attempts that are due
gangs            the commands of one gang, from prepare to the recorded end; pauses in place
service_tasks    the commands of one attempt of independent tasks: stops, restarts and requests for new nodes
task_timers      when each independent task or paused gang is to be looked at
worker_reports   the newest report of each share, and the answers to shares that must not exist any more
lending          what tasks lend of their nodes, until the region's log shows it
node_health      silent and lost workers, damped returns, and quarantine of ill nodes and black holes
"""

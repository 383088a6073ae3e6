"""Parts that several benchmarks share, and one package for each benchmark with parts of its own.

report         the result of every benchmark: figures, bars, yardsticks and the machine
durations      how long each benchmark takes, and its form of at most five minutes
peers          measured figures of other schedulers, each beside ours that is the same work: `start`, `global_rate`, `short_tasks`
percentiles    percentiles of measured spans
plots          step curves and bars as SVG, by matplotlib; the option `--figure`
starts         starts on a real plane, timed: `start`, `beside_gangs`, `harvest_idle_cost`
plane_client   a client of a real plane that receives every fact: submits and waits
cpu_time       processor time by role of a plane
queue_host     a real job queue in its host, for benchmarks of the bus
agents         `agent`, `agent_growth`, `decision`, `defrag`: regions that one agent searches
store          `commit`, `log`: one placement store under many agents, and long logs
packing        `packing`, `packing_live`: published lists of nodes and pods, placed one by one
planet         `allocation`, `slo`, `start_latency`, `ablation`, `global_rate`, `harvest_idle_cost`: a planet of six regions
crash          `crash`: a steady load, and a count of what crashes broke
estimate       `estimate`: a load from a public trace, and the cost of start estimates
functions      `mws`, `short_tasks`, `functions_killed`, `beside_gangs`, `reclaim_live`, `harvest_idle_cost`: calls of functions, in virtual time and on real planes
harvest        `harvest_replay`, `budget`, `evictions`, `gpu_harvest`, `harvest_idle_cost`: harvested capacity in virtual time
task_control   `task_control`: Twine's figure 14 on a model and on a simulated plane
"""

"""Parts of the benchmarks of a whole planet.

planet           six regions under a published load, played in the simulated world: `allocation`, `slo`, `start_latency`, `ablation`
data             datasets in two regions each, and work that reads one: `allocation`, `slo`, `start_latency`
rate_from_logs   figures of a burst, read from the log files of a real plane: `global_rate`
"""

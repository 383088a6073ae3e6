"""Parts of the benchmarks of the allocation agent.

region            a large, partly held region and the agent that follows it: `agent`, `agent_growth`, `defrag`
infeasible        the time of a refusal for requests that 100,000 nodes can never hold: `agent`
explain           the time to repeat a choice for `mizzen explain` on 100,000 nodes: `agent`
decision_region   MAST's largest region, nearly full, with preemption and checkpoints: `decision`
lagging           many agents over one placement store, each some facts behind: conflict detection, and tests
"""

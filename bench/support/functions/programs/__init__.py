"""Programs that run as processes of their own and call functions, each of which prints what it found as one line of JSON.

timing              how calls are timed: the same for Mizzen and for other systems
mizzen_calls        `short_tasks`: calls through the SDK, as users write them
ray_calls, dask_calls, hyper_queue_calls
                    `short_tasks`: the same calls of another system, run by an interpreter that has it
token_calls         `functions_killed`: each call has a token of its own, which is written down when it begins
naps                `reclaim_live`: calls that sleep, all at once
endless_map         `beside_gangs`: a map that goes on until it is told to stop
"""

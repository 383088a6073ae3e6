"""Pipelines: stages in turn, by when each must start, and an honest no.

requests.py   users submit, test and cancel pipelines
queries.py    the progress of a pipeline, and its expected end
looks.py      after each event of a stage, and once a minute: the facts that a pipeline needs
holding.py    all stages run in one region
forecasts.py  when stages start and end, with a band

Which stages are in the order of the queue, and from when on the age of each counts: state/stage_order.py.
The inputs of start deadlines: stage_costs.py.
"""

"""Copies of data: the next orders, reports of data services, and work that waits for data.

candidates.py   copies that waiting work needs, and where to
orders.py       `order_copies`: deletions, copies for waiting work, then the plan's, within storage, links and the day's bytes
waiting.py      `note_waiting_reads`: a fact a minute of waiting work that reads data
records.py      plans of the planner, and reports of data services
obstacles.py    why a copy that work waits for is not ordered
queries.py      answers to operators
"""

"""In which order a host decides messages: the urgency that they carry (context.py), the class and order key of each type (traits.py),
learnt costs (costs.py), and the policies that rank them (policies/). The queue that sorts is runtime/dispatch/mailbox.py.
"""

"""Where data lives: homes and copies of tables, and the actions of a day's plan.

problem      what is planned for: tables, jobs, supply, storage and limits
hot          which hot tables each region should hold
price        the objective
figures      the figures of a placement that operators read
actions      the actions of a plan
placement    a placement that steps change, with the exact gain of each
sets         tables that are read together
candidates   steps that seem to gain
search       the plan: one queue by gain per byte
"""

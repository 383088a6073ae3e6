"""The auditor: checks that the plane keeps its invariants, and knows the status of every unit.

component   folds all logs at one consistent cut, checks each fact, and tells of violations
roster      the newest status of each unit
"""

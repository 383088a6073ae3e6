"""Placement rules: one file each. rule.py says what a rule is, rule_sets.py which are asked and in which order."""

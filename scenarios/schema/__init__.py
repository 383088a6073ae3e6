"""The values of a scenario file and of a run's outcome: read, checked, and refused in words for their author.

values         the plain values of a YAML text, and the scalars that cannot be read
error_text     problems of a value in the words of YAML instead of msgspec's
parts          faults, workloads and checks: structs found by their file's name and read from plain values
fleet          the fleet: alike regions, regions by name, or a fleet of `scenarios/fleets/`
tenants        tenants with level, entitlements and budget, and the ranking rules
preemption     preemption settings, the same for all regions
expectations   a figure of a run compared with a number, and a sentence on each figure
history        logs that an older build wrote, from which a run can start
outcome        the result of one run: digest, violations, problems, expectations and figures
"""

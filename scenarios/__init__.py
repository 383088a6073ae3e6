"""Scenarios: a fleet, a load and faults played against the whole plane, and checks of the result.

The parts that a scenario file names, in reading order; each part of a folder is one file, found by its name:

scenario      a scenario file as typed values; every unknown or wrong field is reported with its line
fault         the base of all faults, each with dice of its own and undone when cancelled; `faults/` has the faults
workload      the base of all loads: arrivals, sizes and priorities; `workloads/` has the loads
trace         loads that replay jobs of a recorded trace
users         the users of a run: they submit, cancel, hold, release and requeue until they are answered
controller    task controllers of a run; `controllers/` has the kinds
check         the base of all checks at the end of a run; `checks/` has the checks
variant       scheduling designs to compare with ours; `variants/` has them
parts_page    writes docs/scenario-parts.md from the fields of all parts

The packages around them:

schema        the values of a scenario file, its tenants and fleet, and the outcome of a run
worlds        the worlds in which a plane can run, and the fault actions that each offers
play          plays one scenario in one world
accounting    figures and promises of a run, computed from its facts alone
swarm         scenarios drawn from seeds, played on several cores, and made smaller when they fail
fleets, library, histories    the fleets, scenario files and logs of older builds that come with Mizzen
"""

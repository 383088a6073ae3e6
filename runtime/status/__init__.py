"""The status of a unit, which `mizzen plane` shows.

unit_status      what a unit tells of itself every ten seconds
put_aside        messages on which a component fails again and again
violation_file   broken invariants that no operator has acknowledged
"""

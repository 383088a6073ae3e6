"""The worlds in which a scenario can run. Only these and runtime/wiring.py know which world it is."""

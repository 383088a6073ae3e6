"""Loads on chains of hosts, and on planes, under policies of dispatch."""

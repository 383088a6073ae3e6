"""The way from a command to a plane: find the plane, connect with credentials, send one request, read the answer.

plane         finds the plane of this directory or environment, opens a connection, and sends requests
credentials   adds users to the plane's NATS server, and removes them
tenant        the subjects that a tenant's credentials may use
join          for a machine that joins as a worker: the plane's address, and the inventory that the machine adds
"""

"""The world of real processes: a plane as `mizzen up` keeps it, on this machine, with faults that a machine can have.

world            the plane, its fault actions, and the logs' files as the witness reads them
proxy            a TCP proxy between one process and the NATS server, which can delay or cut either direction
proxies          one proxy for each process of the plane, found by the process's name on the bus
unit_log         the log file of a process: its start, the cause of its death, the digest of its log
file_activity    a test whether another process is writing to a file now
doomed_process   an additional process that is expected to refuse its start, for example a second keeper
deferred_bus     a bus endpoint that exists before its connection, for users named before the plane is up
"""

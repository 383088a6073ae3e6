"""Tasks on this machine, real and emulated, in a spool on disk that outlives the worker.

    spool.py        what a worker has its effects done by; the fence
    emulated.py     emulated shares, and the journal from which they are made again
    programs.py     shares of programs: prepared, started, stopped, forgotten, and found again after a restart
    share.py        one such share, and what is so of it by the files of its tasks
    task.py         one task as the worker knows it: the runner it speaks to
    runner.py       the small process that runs one task and outlives the worker; running.py, what it does;
                    segments.py, where it keeps the output; machine.py, what it asks of Linux
    processes.py    who a process is, and what is left of a task whose runner died
    environment.py  what a task sees
    health.py       whether the machine's devices are well
    slots.py        which devices and CPUs there are, and which a task gets
    layout.py       where everything lies
    lock.py         one process at a time
    errors.py       what can go wrong with a spool
    ports.py        where rank 0 may listen
    rubbish.py      what is on its way out
    output.py       what tasks wrote, for whoever asks
    retention.py    how long that stays

The runner imports none of the others.
"""

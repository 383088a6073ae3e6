"""The command line's own input and output: options that commands share, and the form of every answer.

output           answers on standard output, problems on standard error, as text or JSON; `CommandError`
options          single options of several commands: `--json`, workload ids, `--yes`
node_options     options that name nodes: `--region`, `--rack`, `--zone`, `--pool` and others
worker_options   options that tell where a machine stands, for `mizzen start worker --join`
"""

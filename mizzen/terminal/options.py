"""Options that several commands have."""

from typing import Annotated

from cyclopts import Parameter

Json = Annotated[bool, Parameter(name="--json", negative=(), help="Answer with JSON.")]
OneWorkload = Annotated[str, Parameter(name="ID", help="The workload, as in w-7.")]
AnyWorkloads = Annotated[str, Parameter(name="ID", help="Workloads, as in w-7.")]
Sure = Annotated[bool, Parameter(name="--yes", negative=(), help="Also if no node of the region stays open.")]

"""Options that every command has."""

from typing import Annotated

from cyclopts import Parameter

Json = Annotated[bool, Parameter(name="--json", negative=(), help="Answer with JSON.")]

"""`mizzen tenants`: who has work here, at which level, and what each one may hold and holds."""

import shutil
import sys

from mizzen.answers import tell_json, tell_lines
from mizzen.options import Json


def tenants(*, json: Json = False) -> None:
    """List tenants: level, GPUs guaranteed, held, borrowed and lent, the shortest run, and the budget."""
    import msgspec

    from mizzen.quotas import tenants_of
    from mizzen.views.reading import on_plane
    from mizzen.views.tenant_table import table_of

    rows = on_plane(lambda bus, _: tenants_of(bus))
    if json:
        tell_json(msgspec.to_builtins(rows))
    else:
        tell_lines(table_of(rows, shutil.get_terminal_size().columns if sys.stdout.isatty() else None))

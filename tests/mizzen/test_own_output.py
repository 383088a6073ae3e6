"""A tenant that follows what its tasks write: from whichever workers have it, also such as are found late, until it has ended."""

import contextlib
import io
from pathlib import Path

from msgspec.structs import replace

from core.messages.queue import CancelWorkload
from core.messages.store import OrderStop, RecordEnd
from core.nouns.ids import TenantName, WorkerName, WorkloadId
from core.nouns.workload import EndCause, Program
from mizzen.views.tasks.output import Asked
from mizzen.views.tasks.tenant_output import tell_own_output
from runtime.tasks.layout import TENANT
from runtime.tasks.output import OutputServer
from tests.builders import EU, a_job, a_spec
from tests.mizzen.half_plane import awarded, half_plane
from tests.mizzen.nodes_scene import gang, nodes
from tests.runtime.aids import Place, in_virtual_time

W1 = WorkloadId("w-1")
ML = TenantName("ml")
SPEC = replace(a_spec(replace(a_job(2), emulation=None, program=Program("train"))), tenant=ML)


class Workers:
    """Of the region, with a directory each."""

    def __init__(self, place: Place, folder: Path, *names: str) -> None:
        self._folder = folder
        for name in names:
            bus = place.network.endpoint(f"output.eu.{name}")
            server = OutputServer(EU, WorkerName(name), folder / name, bus, place.clock())
            place.loop.create_task(server.run(), name=name)

    def write(self, worker: str, rank: int, text: str, *, is_ended: bool = True) -> None:
        """What a task of the first attempt has written there in all."""
        attempt = self._folder / worker / "w-1.1"
        (attempt / f"main.{rank}").mkdir(parents=True, exist_ok=True)
        (attempt / TENANT).write_text(ML)
        (attempt / f"main.{rank}" / f"{0:020d}").write_text(text)
        if is_ended:
            (attempt / f"main.{rank}" / "ended").write_text("0\n")


def test_follows_every_worker_that_is_found(tmp_path: Path) -> None:
    """One rank is there at first; another's worker has something only after the workload has ended, and none of it is missing."""

    async def body(place: Place) -> None:
        plane = await half_plane(place, (nodes("w0", 0), *gang("w-1", {0: 2})), *awarded(), spec=SPEC)
        workers = Workers(place, tmp_path, "w0", "w1", "w2")
        workers.write("w0", 0, "one\n", is_ended=False)
        await place.moment()
        told = io.StringIO()
        tenant = place.network.endpoint("ml/ada", ML)
        with contextlib.redirect_stdout(told):
            following = place.loop.create_task(tell_own_output(tenant, Asked(W1, "all", is_followed=True)))
            await place.sleep(5)
            assert "[0] one\n" == told.getvalue()
            workers.write("w0", 0, "one\ntwo\n")
            await place.sleep(1)
            await place.ask(CancelWorkload(W1))
            await place.sleep(2)
            assert not following.done()
            plane.bus.say(OrderStop(EU, W1, 1, EndCause.CANCELLED))
            workers.write("w1", 1, "three\n")
            plane.bus.say(RecordEnd(EU, W1, 1, EndCause.CANCELLED))
            await following
        assert "[0] one\n[0] two\n[1] three\n" == told.getvalue()

    in_virtual_time(body)

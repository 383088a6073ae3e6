"""Calls of Dask: two worker processes of one thread, and futures; by one map, in batches, and as a bag of partitions."""

import asyncio
from typing import Any  # Any: Dask is not there where types are checked.

import dask  # type: ignore[import-not-found]
import dask.bag  # type: ignore[import-not-found]
from distributed import Client, LocalCluster  # type: ignore[import-not-found]

from bench.support.functions.programs.timing import Forms, in_window, tell, work_of_line

WORKERS = 2
BATCH = 1_000


def same(number: int) -> int:
    """Be the function."""
    return number


def main() -> None:
    """Start the scheduler and two workers, and time all forms."""
    dask.config.set({"distributed.admin.event-loop-monitor-interval": "10s"})
    with (
        LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        tell("distributed", forms_of(client), work_of_line())


def forms_of(client: Any) -> Forms:
    """Return the forms."""

    def submit(number: int) -> Any:
        return client.submit(same, number, pure=False)

    def mapped(count: int, **options: Any) -> list[int]:
        found: list[int] = client.gather(client.map(same, range(count), pure=False, **options))
        return found

    def bag(count: int) -> list[int]:
        found: list[int] = (
            dask.bag.from_sequence(range(count), npartitions=2 * WORKERS)
            .map(same)
            .compute(scheduler=client, optimize_graph=False)
        )
        return found

    async def on_loop(count: int, many: int) -> list[int]:
        async with Client(client.scheduler.address, asynchronous=True) as other:
            numbers, values = iter(range(count)), [0] * count

            async def call_in_turn() -> None:
                for number in numbers:
                    values[number] = await other.submit(same, number, pure=False)

            await asyncio.gather(*(call_in_turn() for _ in range(many)))
            return values

    return Forms(
        mapped={
            "map": mapped,
            "map_batches": lambda count: mapped(count, batch_size=BATCH),
        },
        chunked={"bag": bag},
        called={
            "futures": lambda count, many: in_window(count, many, submit, lambda one: one.result()),
            "on_loop": lambda count, many: asyncio.run(on_loop(count, many)),
        },
        one={"future": lambda number: submit(number).result()},
    )


if __name__ == "__main__":
    main()

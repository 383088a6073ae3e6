"""Calls of Ray: plain tasks, actors, and chunks of the pool that Ray has in place of multiprocessing's. Two worker processes."""

import os
from typing import Any  # Any: Ray is not there where types are checked.

import ray  # type: ignore[import-not-found]
from ray.util.actor_pool import ActorPool  # type: ignore[import-not-found]
from ray.util.multiprocessing import Pool  # type: ignore[import-not-found]

from bench.support.functions.programs.timing import Forms, in_window, tell, work_of_line

WORKERS = 2


def same(number: int) -> int:
    """Be the function."""
    return number


class Same:
    """The function, of an actor."""

    def same(self, number: int) -> int:
        """Be the function."""
        return number


def main() -> None:
    """Start Ray with two workers, and time all forms."""
    os.environ["RAY_DEDUP_LOGS"] = "0"
    ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False, logging_level="error")
    task: Any = ray.remote(num_cpus=1)(same)
    actors: list[Any] = [ray.remote(num_cpus=0)(Same).remote() for _ in range(WORKERS)]
    pool: Any = Pool(WORKERS, ray_remote_args={"num_cpus": 0})

    def of_actor(number: int) -> Any:
        return actors[number % WORKERS].same.remote(number)

    def of_actor_pool(count: int) -> list[int]:
        return list(ActorPool(actors).map(lambda actor, number: actor.same.remote(number), range(count)))

    forms = Forms(
        mapped={
            "tasks": lambda count: ray.get([task.remote(number) for number in range(count)]),
            "actors": lambda count: ray.get([of_actor(number) for number in range(count)]),
            "actor_pool": of_actor_pool,
        },
        chunked={"pool": lambda count: pool.map(same, range(count))},
        called={
            "tasks": lambda count, many: in_window(count, many, task.remote, ray.get),
            "actors": lambda count, many: in_window(count, many, of_actor, ray.get),
        },
        one={
            "task": lambda number: ray.get(task.remote(number)),
            "actor": lambda number: ray.get(of_actor(number)),
        },
    )
    tell("ray", forms, work_of_line())
    ray.shutdown()


if __name__ == "__main__":
    main()

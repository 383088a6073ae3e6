"""Which ranks of a training gang work together: its tensor, pipeline and data parallel groups."""

from collections.abc import Sequence

from msgspec import Struct


class Parallelism(Struct, frozen=True):
    """How many ways a model is split, and so which rank belongs to which group.

    Ranks are numbered as Megatron-LM numbers them unless told otherwise: the tensor parallel index runs fastest, then the
    context parallel one, then the data parallel one, and the pipeline stage slowest, so that

        rank = t + tensor * (c + context * (d + data * p))

    With `is_data_outermost` the last two change places. Expert parallelism splits the data parallel index further and moves
    no rank; but then the experts are spread over replicas, and none of these can be given up alone.

    source    Megatron-LM megatron/core/parallel_state.py: `initialize_model_parallel`, order "tp-cp-ep-dp-pp";
              `--use-tp-pp-dp-mapping` makes it "tp-cp-ep-pp-dp"
    """

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    context: int = 1
    is_data_outermost: bool = False

    def __post_init__(self) -> None:
        if min(self.tensor, self.pipeline, self.data, self.context) < 1:
            raise ValueError("a model is split at least one way in each dimension")

    @property
    def ranks(self) -> int:
        """Of the whole gang."""
        return self.ranks_of_replica * self.data

    @property
    def ranks_of_replica(self) -> int:
        """Of one whole copy of the model."""
        return self.tensor * self.context * self.pipeline

    def replica_of(self, rank: int) -> int:
        """Which copy of the model a rank works on: its data parallel index."""
        self._check(rank)
        block = rank // (self.tensor * self.context)
        return block // self.pipeline if self.is_data_outermost else block % self.data

    def stage_of(self, rank: int) -> int:
        """Which stage of the pipeline a rank computes."""
        self._check(rank)
        block = rank // (self.tensor * self.context)
        return block % self.pipeline if self.is_data_outermost else block // self.data

    def tensor_group(self, rank: int) -> tuple[int, ...]:
        """The ranks that compute the same layers of the same sample together, and so talk in every layer."""
        self._check(rank)
        first = rank - rank % self.tensor
        return tuple(range(first, first + self.tensor))

    def pipeline_group(self, rank: int) -> tuple[int, ...]:
        """The ranks that hand one sample on, from the first stage to the last."""
        self._check(rank)
        inner = self.tensor * self.context
        mine = (rank % inner, self.replica_of(rank))
        return tuple(
            other
            for other in range(rank % inner, self.ranks, inner)
            if (other % inner, self.replica_of(other)) == mine
        )

    def data_group(self, rank: int) -> tuple[int, ...]:
        """The ranks that hold the same parameters and average their gradients."""
        self._check(rank)
        inner = self.tensor * self.context
        stage = self.stage_of(rank)
        return tuple(
            other for other in range(rank % inner, self.ranks, inner) if self.stage_of(other) == stage
        )

    def groups_split(self, nodes_of_ranks: Sequence[int]) -> list[tuple[int, ...]]:
        """The tensor parallel groups that lie on more than one node, where every layer waits for the network.

        nodes_of_ranks   the node of each rank
        """
        if len(nodes_of_ranks) != self.ranks:
            raise ValueError(
                f"the gang has {self.ranks} ranks, and the nodes of {len(nodes_of_ranks)} were told"
            )
        groups = (self.tensor_group(first) for first in range(0, self.ranks, self.tensor))
        return [group for group in groups if len({nodes_of_ranks[rank] for rank in group}) > 1]

    def give_up(self, *ranks: int) -> tuple[int, ...]:
        """The ranks that have nothing to do once these are gone: the whole copies of the model that they belong to.

        The others hold whole copies too, and can go on with a smaller batch.
        """
        leaving = {self.replica_of(rank) for rank in ranks}
        return tuple(rank for rank in range(self.ranks) if self.replica_of(rank) in leaving)

    def _check(self, rank: int) -> None:
        if not 0 <= rank < self.ranks:
            raise ValueError(f"there is no rank {rank}: the gang has {self.ranks}")

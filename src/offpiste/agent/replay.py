"""Prioritised replay of n-step transitions, as in Dopamine, with every frame stored once and compressed.

An entry is one agent step: its newest frame, the action, the clipped extrinsic and the unscaled intrinsic reward, and
whether the episode ended there. Each episode is preceded by stack - 1 all-zero entries of priority 0, so that its first
stacks need no special case. Stacks are built when sampled. An episode that is truncated without being terminal (`cut`)
ends with one more entry, for its last frame, which is never sampled and which returns bootstrap from.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offpiste import arrays
from offpiste.agent.frames import Chunk, FrameLog
from offpiste.agent.sum_tree import SumTree
from offpiste.config import AgentConfig
from offpiste.errors import ConfigError
from offpiste.types import Batch, Beyond, Weights

CHUNK_SLOTS = 4_096
REDRAWS = 1_000
_COLUMNS = ("actions", "extrinsic", "intrinsic", "terminal")
"""The columns of an entry beside its frame: attributes of the replay, and keys in a checkpoint."""


class Replay:
    """The last `capacity` entries of a run."""

    def __init__(
        self,
        agent: AgentConfig,
        state_shape: tuple[int, int, int],
        generator: np.random.Generator,
        *,
        bootstrap_at_limit: bool = False,
        beyond_ends: bool = False,
    ) -> None:
        """Make an empty replay for states [stack, height, width]; batches are sampled with `generator`.

        With `beyond_ends`, they also hold the steps of returns that continue over the ends of episodes.
        """
        stack_frames, height, width = state_shape
        self.added = 0
        self._capacity = agent.replay_capacity
        self._stack = stack_frames
        self._n_steps = agent.return_steps
        self._generator = generator
        self._tree = SumTree(agent.replay_capacity)
        self._frames = FrameLog(agent.replay_capacity, (height, width), chunk_slots(agent.replay_capacity))
        self._blank = np.zeros(state_shape[1:], np.uint8)
        self.actions = np.zeros(self._capacity, np.int16)
        self.extrinsic = np.zeros(self._capacity, np.float32)
        self.intrinsic = np.zeros(self._capacity, np.float32)
        self.terminal = np.zeros(self._capacity, np.bool_)
        self.last_frame = np.zeros(self._capacity, np.bool_)
        """True for entries that are no steps but hold the last frame of a truncated episode."""
        self._stored = (*_COLUMNS, "last_frame") if bootstrap_at_limit else _COLUMNS
        self._beyond_ends = beyond_ends
        self._memory: dict[str, NDArray[np.uint8]] = {}
        """The frames of the last batch of each reader."""

    def add(self, frame: NDArray[np.uint8], action: int, extrinsic: float, intrinsic: float, terminal: bool) -> None:
        """Add one agent step, with the largest priority recorded so far."""
        if self.added == 0 or self.terminal[(self.added - 1) % self._capacity]:
            for _ in range(self._stack - 1):
                self._append(self._blank, 0, 0.0, 0.0, False, 0.0)
        self._append(frame, action, extrinsic, intrinsic, terminal, self._tree.largest_recorded)

    def cut(self, last_frame: NDArray[np.uint8]) -> None:
        """Truncate the episode after the last step added; `last_frame` is that of the state to bootstrap from."""
        self._append(last_frame, 0, 0.0, 0.0, True, 0.0, is_last_frame=True)

    def sample(self, batch_size: int) -> Batch:
        """Sample transitions by priority, stratified; the frames stay valid until the next call."""
        return self._batch(self._draw(batch_size), "agent")

    def sample_uniformly(self, batch_size: int, generator: np.random.Generator) -> Batch | None:
        """Sample transitions with equal probability; None before there are any.

        The frames stay valid until the next call of this method or the next.
        """
        held = min(self.added, self._capacity)
        return self._drawn(batch_size, lambda count: generator.integers(held, size=count))

    def sample_weighted(self, batch_size: int, generator: np.random.Generator, weights: Weights) -> Batch | None:
        """Sample transitions with probabilities in proportion to weights of entries; else as `sample_uniformly`.

        The weights are asked for once, for the numbers of all entries held, ascending; those of entries that cannot be
        sampled do not matter.
        """
        if self.added < self._stack + self._n_steps:
            return None
        numbers = np.arange(max(0, self.added - self._capacity), self.added)
        cumulative = np.cumsum(weights(numbers), dtype=np.float64)
        if cumulative.shape != numbers.shape or not 0.0 < cumulative[-1] < np.inf or (np.diff(cumulative) < 0.0).any():
            raise ConfigError("weights of entries must be one finite number >= 0 for each, and not all 0")

        def draw(count: int) -> NDArray[np.int64]:
            found = np.searchsorted(cumulative, generator.random(count) * cumulative[-1], side="right")
            indices: NDArray[np.int64] = numbers[np.minimum(found, len(numbers) - 1)] % self._capacity
            return indices

        return self._drawn(batch_size, draw)

    def _drawn(self, batch_size: int, draw: Callable[[int], NDArray[np.int64]]) -> Batch | None:
        """Return a batch of a bonus, of indices that are drawn until all are valid; None before there are any."""
        if self.added < self._stack + self._n_steps:
            return None
        indices = draw(batch_size)
        for _ in range(REDRAWS):
            invalid = np.flatnonzero(~self.valid(indices))
            if not len(invalid):
                return self._batch(indices, "bonus")
            indices[invalid] = draw(len(invalid))
        raise ConfigError(
            f"no valid transition in {REDRAWS:,} draws; raise agent.replay_capacity, now {self._capacity:,}"
        )

    def _batch(self, indices: NDArray[np.int64], reader: str) -> Batch:
        numbers = self._numbers(indices)
        ahead = (indices[:, None] + np.arange(self._n_steps)) % self._capacity  # [batch, n]
        ends, last_frame = self.terminal[ahead], self.last_frame[ahead]
        inside = np.cumsum(ends, axis=1) - ends == 0  # true up to and including the first end
        steps = inside & ~last_frame
        frames = self._read_frames(numbers, reader)
        return Batch(
            indices=indices,
            numbers=numbers,
            priorities=self._tree.leaves[indices],
            frames=frames,
            actions=self.actions[ahead].astype(np.int64),
            extrinsic=np.where(steps, self.extrinsic[ahead], np.float32(0.0)),
            intrinsic=np.where(steps, self.intrinsic[ahead], np.float32(0.0)),
            steps=steps.sum(axis=1),
            terminal=(ends & steps).any(axis=1),
            beyond=self._beyond(indices, frames) if self._beyond_ends else None,
        )

    def update_priorities(self, indices: NDArray[np.int64], priorities: NDArray[np.float64]) -> None:
        """Set the priorities of sampled transitions."""
        self._tree.set(indices, priorities)

    def valid(self, indices: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which entries have a whole stack before them and n steps after them."""
        cursor = self.added % self._capacity
        if self.added < self._capacity:
            inside = (indices >= self._stack - 1) & (indices < self.added - self._n_steps)
        else:
            inside = (indices - (cursor - self._n_steps)) % self._capacity >= self._n_steps + self._stack
        behind = (indices[:, None] - np.arange(1, self._stack)) % self._capacity
        valid: NDArray[np.bool_] = inside & ~self.terminal[behind].any(axis=1) & ~self.last_frame[indices]
        if self._beyond_ends:
            _, bootstrap = self._steps_beyond(indices)
            valid &= self._numbers(indices) + bootstrap < self.added
        return valid

    def _steps_beyond(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Return where the n steps after these entries lie, ends of episodes or not, and where to bootstrap from.

        That is a mask [batch, entries ahead], and how many entries ahead the state lies to bootstrap from: that of the
        step after the n, or the last frame of an episode that was truncated on the way; beyond the mask if neither is
        there.
        """
        ahead = (indices[:, None] + np.arange(self._n_steps * self._stack + 1)) % self._capacity
        ends = np.cumsum(self.terminal[ahead], axis=1)
        padding = ends[:, :-1].copy()  # after an end come stack - 1 blank entries
        padding[:, self._stack - 1 :] -= ends[:, : ends.shape[1] - self._stack]
        cut = np.cumsum(self.last_frame[ahead], axis=1) > 0
        steps = ~cut
        steps[:, 1:] &= padding == 0
        count = np.cumsum(steps, axis=1)
        stops = cut | (count > self._n_steps)
        bootstrap = np.where(stops.any(axis=1), stops.argmax(axis=1), stops.shape[1])
        return steps & (count <= self._n_steps), bootstrap

    def _beyond(self, indices: NDArray[np.int64], frames: NDArray[np.uint8]) -> Beyond:
        mask, bootstrap = self._steps_beyond(indices)
        steps = mask.sum(axis=1)
        rows, ahead = np.nonzero(mask)
        intrinsic = np.zeros((len(indices), self._n_steps), np.float32)
        intrinsic[np.arange(self._n_steps) < steps[:, None]] = self.intrinsic[(indices[rows] + ahead) % self._capacity]
        next_states = frames[:, self._n_steps :]
        (elsewhere,) = np.nonzero(bootstrap != self._n_steps)
        if len(elsewhere):
            next_states, first = next_states.copy(), self._numbers(indices) + bootstrap + 1 - self._stack
            found = np.empty((len(elsewhere), *next_states.shape[1:]), np.uint8)
            self._frames.read(first[elsewhere], self._stack, found)
            next_states[elsewhere] = found
        return Beyond(intrinsic, steps, next_states)

    def immutable(self) -> dict[str, Callable[[], bytes]]:
        """Return, by name, the parts that are written once, each as a function that packs it.

        A chunk packs to the same bytes for as long as all its entries are kept; rows of entries that were overwritten
        may differ later, and `load_state` ignores them.
        """
        parts: dict[str, Callable[[], bytes]] = {}
        for number in self._frames.chunks:
            parts[f"chunk/{number:08d}"] = lambda number=number: self._pack_chunk(number)  # type: ignore[misc]
        for number, dictionary in self._frames.dictionaries.items():
            parts[f"dictionary/{number:08d}"] = lambda dictionary=dictionary: dictionary  # type: ignore[misc]
        return parts

    def state(self) -> dict[str, Any]:
        """Return what `immutable()` does not hold."""
        state = {f"frames/{key}": value for key, value in self._frames.state().items()}
        state |= {f"tree/{key}": value for key, value in self._tree.state().items()}
        sealed = self.added // self._frames.chunk_slots * self._frames.chunk_slots
        return state | self._columns(range(sealed, self.added))

    def load_state(self, state: Mapping[str, Any], immutable: Mapping[str, bytes]) -> None:
        """Restore from `state()` and `immutable()`."""
        chunks: dict[int, Chunk] = {}
        dictionaries: dict[int, bytes] = {}
        self.added = state["frames/count"]
        slots = self._frames.chunk_slots
        for name, data in immutable.items():
            kind, _, number = name.partition("/")
            if kind == "dictionary":
                dictionaries[int(number)] = data
                continue
            chunk = arrays.unpack(data)
            chunks[int(number)] = Chunk(chunk["dictionary"], chunk["data"].data, chunk["bounds"])
            self._load_columns(chunk, range(int(number) * slots, (int(number) + 1) * slots))
        self._load_columns(state, range(self.added // slots * slots, self.added))
        frames = {key.removeprefix("frames/"): value for key, value in state.items() if key.startswith("frames/")}
        self._frames.load_state(frames, chunks, dictionaries)
        tree = {key.removeprefix("tree/"): value for key, value in state.items() if key.startswith("tree/")}
        self._tree.load_state(tree)

    def decoded(self) -> dict[str, Any]:
        """Return the entries without their frames as plain arrays, oldest first, for digests."""
        numbers = np.arange(max(0, self.added - self._capacity), self.added)
        return {"numbers": numbers, **self._columns(numbers), "priorities": self._tree.leaves[numbers % self._capacity]}

    def frames_of(self, numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return the frames of entries by their numbers, counted from the start of the run."""
        out = np.empty((len(numbers), *self._blank.shape), np.uint8)
        self._frames.read(numbers, 1, out)
        return out

    def _append(
        self,
        frame: NDArray[np.uint8],
        action: int,
        extrinsic: float,
        intrinsic: float,
        terminal: bool,
        priority: float,
        *,
        is_last_frame: bool = False,
    ) -> None:
        cursor = self.added % self._capacity
        self._frames.append(frame)
        self.actions[cursor] = action
        self.extrinsic[cursor] = extrinsic
        self.intrinsic[cursor] = intrinsic
        self.terminal[cursor] = terminal
        self.last_frame[cursor] = is_last_frame
        self._tree.set_one(cursor, priority)
        self.added += 1

    def _draw(self, batch_size: int) -> NDArray[np.int64]:
        strata = (np.arange(batch_size) + self._generator.random(batch_size)) / batch_size
        indices = self._tree.find(strata)
        redraws = 0
        for position in np.flatnonzero(~self.valid(indices)):
            while not self.valid(indices[position : position + 1])[0]:
                if redraws == REDRAWS:
                    raise ConfigError(
                        f"no valid transition in {REDRAWS:,} draws; raise agent.replay_capacity, now {self._capacity:,}"
                    )
                indices[position] = self._tree.find(self._generator.random(1))[0]
                redraws += 1
        return indices

    def _numbers(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers, counted from the start of the run, of the entries now at these indices."""
        return indices + (self.added - 1 - indices) // self._capacity * self._capacity

    def _read_frames(self, numbers: NDArray[np.int64], reader: str) -> NDArray[np.uint8]:
        shape = (len(numbers), self._stack + self._n_steps, *self._blank.shape)
        if reader not in self._memory or self._memory[reader].shape != shape:
            self._memory[reader] = np.zeros(shape, np.uint8)
        self._frames.read(numbers + 1 - self._stack, shape[1], self._memory[reader])
        return self._memory[reader]

    def _columns(self, numbers: range | NDArray[np.int64]) -> dict[str, Any]:
        indices = np.asarray(numbers, np.int64) % self._capacity
        return {name: getattr(self, name)[indices] for name in self._stored}

    def _load_columns(self, columns: Mapping[str, Any], numbers: range) -> None:
        kept = np.arange(max(numbers.start, self.added - self._capacity), numbers.stop)
        for name in self._stored:
            getattr(self, name)[kept % self._capacity] = columns[name][kept - numbers.start]

    def _pack_chunk(self, number: int) -> bytes:
        chunk = self._frames.chunks[number]
        slots = self._frames.chunk_slots
        columns = self._columns(range(number * slots, (number + 1) * slots))
        data = np.frombuffer(chunk.data, np.uint8)
        return arrays.pack({"dictionary": chunk.dictionary, "data": data, "bounds": chunk.bounds, **columns})


def chunk_slots(capacity: int) -> int:
    """Return the frames per chunk: 4,096, or fewer so that a small replay has at least four chunks."""
    return min(CHUNK_SLOTS, max(1, capacity // 4))

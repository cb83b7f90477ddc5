"""Pseudo-counts from context tree switching (Veness et al., 2012; Bellemare et al., 2016).

Each pixel of the downscaled frame has its own tree, which predicts its shade from the shades of four neighbours. As in
the released bonus code, whose tree is not public: 42×42 pixels in 8 shades, and no 0.01 added to the count. Weights are
updated as derived; public implementations update them in place, so that one new weight is computed from the other.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numba
import numpy as np
import zstandard
from numpy.typing import NDArray

from offpiste.bonuses.base import Context, Transition
from offpiste.bonuses.pseudo_count import intrinsic_of_gain
from offpiste.errors import CheckpointError

SHADES = 8
DEPTH = 4
NEIGHBOURS = ((0, -1), (-1, 0), (-1, -1), (-1, 1))
"""The context of a pixel, the most informative neighbour first: left, up, up-left, up-right."""
LEVEL = 1
_ROUNDING = 1e-6
PIECE_BYTES = 2**22


@dataclass(frozen=True)
class CtsOptions:
    """Context tree switching has no options."""


class Cts:
    """Pays N^(-1/2), N the pseudo-count of the newest frame."""

    Options = CtsOptions

    def __init__(self, options: CtsOptions, context: Context) -> None:  # noqa: ARG002 (the form of every bonus)
        height, width = context.frame_shape
        self._shades = bordered((height // 2, width // 2))
        self._trees = ContextTrees((height // 2, width // 2))

    def observe(self, transition: Transition) -> float:
        """Update the density model on the newest frame and return its intrinsic reward."""
        return intrinsic_of_gain(self.gain(transition.frame))

    def gain(self, frame: NDArray[np.uint8]) -> float:
        """Update on a frame and return its prediction gain, the rise of its log-probability."""
        shade(frame, self._shades)
        before, after = self._trees.learn(self._shades)
        return float(_log_ratio(after.ravel(), before.ravel()))

    def state(self) -> dict[str, Any]:
        """Return the trees, compressed by zstd."""
        return self._trees.state()

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        self._trees.load_state(state)


class Nodes(NamedTuple):
    """The nodes of all trees in order of first visit; a node is the index of its row.

    Nodes at full depth are leaves and have only counts, in a separate table. Both tables begin with one row per pixel,
    for its root, so that index 0 is no node's child.
    """

    counts: NDArray[np.uint32]
    """[nodes, symbols + 1]: how often each symbol was seen, without the prior; the last column is the sum."""
    children: NDArray[np.uint32]
    """[nodes, symbols]: the child for each symbol of the context; 0 where there is none yet."""
    weights: NDArray[np.float64]
    """[nodes, 2]: probabilities to stop here and to go deeper; a small one computed as 1 - p would lose its digits."""
    leaf_counts: NDArray[np.uint32]
    used: NDArray[np.int64]
    """[2]: rows in use of the two tables."""


class ContextTrees:
    """One tree for every pixel of a frame, with any number of symbols and any depth up to four."""

    def __init__(self, shape: tuple[int, int], symbols: int = SHADES, depth: int = DEPTH) -> None:
        self.shape = shape
        self.symbols = symbols
        self.depth = depth
        self.seen = 0
        self.nodes = self._roots()

    def learn(self, shades: NDArray[np.uint8]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Update on a bordered frame of symbols; return the probability of each pixel before and after."""
        before, after = np.empty(self.shape), np.empty(self.shape)
        self.seen += 1
        _learn(shades, self.seen, self.depth, self.nodes, before, after)
        return before, after

    def state(self) -> dict[str, Any]:
        """Return one compressed array per table, and how many rows are in use."""
        compressed = {name: _compressed(rows) for name, rows in _rows_in_use(self.nodes).items()}
        return {"seen": self.seen, "used": self.nodes.used.tolist(), **compressed}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        self.seen = int(state["seen"])
        self.nodes = self._roots()
        self.nodes.used[:] = state["used"]
        most = [len(self.nodes.counts), len(self.nodes.leaf_counts)]
        if (self.nodes.used < self.shape[0] * self.shape[1]).any() or (self.nodes.used > most).any():
            raise CheckpointError(f"the trees cannot have {state['used']} nodes; the checkpoint is broken")
        for name, rows in _rows_in_use(self.nodes).items():
            with zstandard.ZstdDecompressor().stream_reader(state[name]) as reader:
                found = reader.readinto(rows.data.cast("B"))
            if found != rows.nbytes:
                raise CheckpointError(
                    f"the {name} of the trees must be {rows.nbytes:,} bytes, got {found:,}; the checkpoint is broken"
                )
        if not self._are_trees():
            raise CheckpointError("the nodes are no trees, or their numbers no counts; the checkpoint is broken")

    def _are_trees(self) -> bool:
        """Whether each node is the child of one other, and counts and weights add up.

        Learning writes wherever a child's index points, without a check, and a checkpoint may be a stranger's.
        """
        inner, leaves = self.nodes.used.tolist()
        pixels = self.shape[0] * self.shape[1]
        levels = [np.arange(pixels, dtype=np.uint32)]
        for _ in range(self.depth):
            below = self.nodes.children[levels[-1]]
            levels.append(below[below > 0])
        reached = np.sort(np.concatenate(levels[: max(1, self.depth)]))
        reached_leaves = np.sort(np.concatenate([levels[0], *levels[max(1, self.depth) :]]))
        counts = [self.nodes.counts[:inner], self.nodes.leaf_counts[:leaves]]
        weights = self.nodes.weights[:inner]
        return (
            np.array_equal(reached, np.arange(inner))
            and np.array_equal(reached_leaves, np.arange(leaves))
            and all((rows[:, :-1].sum(axis=1, dtype=np.int64) == rows[:, -1]).all() for rows in counts)
            and all(int(rows[:, -1].max()) <= self.seen for rows in counts)
            and bool((weights > 0).all() and (np.abs(weights.sum(axis=1) - 1) < _ROUNDING).all())
        )

    def _roots(self) -> Nodes:
        pixels = self.shape[0] * self.shape[1]
        inner = pixels * max(1, sum(self.symbols**level for level in range(self.depth)))
        leaves = pixels * (1 + self.symbols**self.depth)
        # Address space for all possible nodes, 0.36 GB; the system allocates a page of zeros when it is first written,
        # and rows are used in order, so that only contexts that were seen take memory.
        nodes = Nodes(
            counts=np.zeros((inner, self.symbols + 1), np.uint32),
            children=np.zeros((inner, self.symbols), np.uint32),
            weights=np.zeros((inner, 2)),
            leaf_counts=np.zeros((leaves, self.symbols + 1), np.uint32),
            used=np.array([pixels, pixels]),
        )
        nodes.weights[:pixels] = 0.5
        return nodes


def bordered(shape: tuple[int, int], outside: int = 0) -> NDArray[np.uint8]:
    """Return an empty frame of symbols with a border for neighbours outside: a row above, a column on either side.

    The border's symbol does not matter: a neighbour that never changes only renames the children.
    """
    return np.full((shape[0] + 1, shape[1] + 2), outside, np.uint8)


@numba.njit(cache=True)
def shade(frame, shades):  # type: ignore[no-untyped-def]
    """Write the shades of a frame into a bordered one of half the size: the rounded mean of each 2×2 block, over 32."""
    for row in range(shades.shape[0] - 1):
        for column in range(shades.shape[1] - 2):
            total = 2  # rounds the mean of four as OpenCV's INTER_AREA does
            for part in range(4):
                total += frame[2 * row + part // 2, 2 * column + part % 2]
            shades[row + 1, column + 1] = total // 4 // 32


# One long function: passing arrays to a compiled function counts references, which made this five times slower.
@numba.njit(cache=True)
def _learn(shades, seen, depth, nodes, before, after):  # type: ignore[no-untyped-def]
    symbols = nodes.children.shape[1]
    alpha = 1.0 / (seen + 1.0)
    keep = seen / (seen + 1.0)  # 1 - alpha
    path = np.empty(depth + 1, np.uint32)
    height, width = before.shape
    for row in range(height):
        for column in range(width):
            path[0] = row * width + column
            for level in range(depth):
                node = path[level]
                down, right = NEIGHBOURS[level]
                symbol = shades[row + 1 + down, column + 1 + right]
                child = nodes.children[node, symbol]
                if child == 0:
                    table = 1 if level == depth - 1 else 0
                    child = np.uint32(nodes.used[table])
                    nodes.used[table] += 1
                    nodes.children[node, symbol] = child
                    if table == 0:
                        nodes.weights[child, 0] = 0.5
                        nodes.weights[child, 1] = 0.5
                path[level + 1] = child

            symbol = shades[row + 1, column + 1]
            node = path[depth]
            count, total = nodes.leaf_counts[node, symbol], nodes.leaf_counts[node, symbols]
            nodes.leaf_counts[node, symbol] = count + np.uint32(1)
            nodes.leaf_counts[node, symbols] = total + np.uint32(1)
            q = _estimate(count, total, symbols)
            q_after = _estimate(count + 1, total + 1, symbols)
            for level in range(depth - 1, -1, -1):
                node = path[level]
                count, total = nodes.counts[node, symbol], nodes.counts[node, symbols]
                nodes.counts[node, symbol] = count + np.uint32(1)
                nodes.counts[node, symbols] = total + np.uint32(1)
                stop = nodes.weights[node, 0] * _estimate(count, total, symbols)
                deeper = nodes.weights[node, 1] * q
                q = stop + deeper
                # Both new weights are computed from the old ones.
                stop_after = (keep * stop + alpha * deeper) / q
                deeper_after = (keep * deeper + alpha * stop) / q
                nodes.weights[node, 0] = stop_after
                nodes.weights[node, 1] = deeper_after
                q_after = stop_after * _estimate(count + 1, total + 1, symbols) + deeper_after * q_after
            before[row, column] = q
            after[row, column] = q_after


@numba.njit(cache=True)
def _estimate(count, total, symbols):  # type: ignore[no-untyped-def]
    """Return the probability of a symbol at a node, with a prior count of 1/symbols for every symbol."""
    return (symbols * count + 1.0) / (symbols * (total + 1.0))


@numba.njit(cache=True)
def _log_ratio(after, before):  # type: ignore[no-untyped-def]
    """Return log Π(after / before)."""
    total = 0.0
    for start in range(0, after.size, 16):  # one logarithm per 16 pixels: no pixel's ratio comes near 1e18
        ratio = 1.0
        for k in range(start, min(start + 16, after.size)):
            ratio *= after[k] / before[k]
        total += math.log(ratio)
    return total


def _rows_in_use(nodes: Nodes) -> dict[str, NDArray[Any]]:
    inner, leaves = nodes.used.tolist()
    return {
        "counts": nodes.counts[:inner],
        "children": nodes.children[:inner],
        "weights": nodes.weights[:inner],
        "leaf_counts": nodes.leaf_counts[:leaves],
    }


def _compressed(rows: NDArray[Any]) -> NDArray[np.uint8]:
    """Compress rows piecewise, so that memory holds little more than the result."""
    compressed = bytearray()
    compressor = zstandard.ZstdCompressor(LEVEL).compressobj()
    data = rows.data.cast("B")
    for start in range(0, len(data), PIECE_BYTES):
        compressed += compressor.compress(data[start : start + PIECE_BYTES])
    compressed += compressor.flush()
    return np.frombuffer(compressed, np.uint8)

"""Pseudo-counts from context tree switching (Veness et al., 2012; Bellemare et al., 2016).

Every pixel of the small picture has a tree of its own, which predicts its shade from the shades of four neighbours.
After the released bonus code, whose own tree is not public: 42×42 pixels in 8 shades, and no 0.01 added to the count.
The weights follow the rule as derived; public implementations change them in place and so use a weight too new.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numba
import numpy as np
import zstandard
from numpy.typing import NDArray

from offpiste.bonuses.base import Context, Transition
from offpiste.bonuses.pseudo_count import bonus_of_gain
from offpiste.errors import CheckpointError

SHADES = 8
DEPTH = 4
NEIGHBOURS = ((0, -1), (-1, 0), (-1, -1), (-1, 1))
"""Where the context of a pixel lies, the most telling neighbour first: left, up, up-left, up-right."""
LEVEL = 1
PIECE_BYTES = 2**22


@dataclass(frozen=True)
class CtsOptions:
    """Context tree switching has no options."""


class Cts:
    """One over the root of the pseudo-count of the newest picture."""

    Options = CtsOptions

    def __init__(self, options: CtsOptions, context: Context) -> None:  # noqa: ARG002 (the form of every bonus)
        height, width = context.frame_shape
        self._picture = bordered((height // 2, width // 2))
        self._trees = ContextTrees((height // 2, width // 2))

    def observe(self, transition: Transition) -> float:
        """Learn the picture and return its bonus."""
        return bonus_of_gain(self.gain(transition.frame))

    def gain(self, frame: NDArray[np.uint8]) -> float:
        """Learn a frame and return by how much that raised the logarithm of its probability."""
        shade(frame, self._picture)
        before, after = self._trees.learn(self._picture)
        return float(_log_ratio(after.ravel(), before.ravel()))

    def state(self) -> dict[str, Any]:
        """Return the trees, compressed."""
        return self._trees.state()

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up where `state` was asked for."""
        self._trees.load_state(state)


class Nodes(NamedTuple):
    """The nodes of all trees, in the order in which they were first seen; a node is named by its row.

    Nodes at full depth are leaves: they have counts alone, in a table of their own. Both tables begin with one row per
    pixel, for its root, so that 0 is nobody's child.
    """

    counts: NDArray[np.uint32]
    """How often each symbol was seen, without the prior, and in the last column any symbol, [nodes, symbols + 1]."""
    children: NDArray[np.uint32]
    """The child for each symbol of the context, [nodes, symbols]; 0 where there is none yet."""
    weights: NDArray[np.float64]
    """The chances to stop here and to go deeper, [nodes, 2]; as 1 - the other, a small one would lose its digits."""
    leaf_counts: NDArray[np.uint32]
    used: NDArray[np.int64]
    """How many rows of the two tables are in use, [2]."""


class ContextTrees:
    """One tree for every pixel of a picture, with any number of symbols and any depth up to four."""

    def __init__(self, shape: tuple[int, int], symbols: int = SHADES, depth: int = DEPTH) -> None:
        self.shape = shape
        self.symbols = symbols
        self.depth = depth
        self.seen = 0
        self.nodes = self._roots()

    def learn(self, picture: NDArray[np.uint8]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Learn a bordered picture; return the probability of each of its pixels before and after."""
        before, after = np.empty(self.shape), np.empty(self.shape)
        self.seen += 1
        _learn(picture, self.seen, self.depth, self.nodes, before, after)
        return before, after

    def state(self) -> dict[str, Any]:
        """Return what `load_state` needs, one compressed array per table."""
        packed = {name: _packed(rows) for name, rows in _rows_in_use(self.nodes).items()}
        return {"seen": self.seen, "used": self.nodes.used.tolist(), **packed}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up where `state` was asked for."""
        self.seen = state["seen"]
        self.nodes = self._roots()
        self.nodes.used[:] = state["used"]
        for name, rows in _rows_in_use(self.nodes).items():
            with zstandard.ZstdDecompressor().stream_reader(state[name]) as reader:
                found = reader.readinto(rows.data.cast("B"))
            if found != rows.nbytes:
                raise CheckpointError(f"the {name} of the trees have {found:,} bytes instead of {rows.nbytes:,}")

    def _roots(self) -> Nodes:
        pixels = self.shape[0] * self.shape[1]
        inner = pixels * max(1, sum(self.symbols**level for level in range(self.depth)))
        leaves = pixels * (1 + self.symbols**self.depth)
        # Room for all the nodes there can be, 0.36 GB; but zeros take up memory only from the first time that a row is
        # written, and rows are used in order, so that only contexts that were seen take any.
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
    """Return an empty picture with room for the neighbours that lie outside: a row above, a column on either side.

    What shade these have does not matter: a neighbour that never changes only renames the children.
    """
    return np.full((shape[0] + 1, shape[1] + 2), outside, np.uint8)


@numba.njit(cache=True)
def shade(frame, picture):  # type: ignore[no-untyped-def]
    """Write a frame of twice the size into a bordered picture: the mean of each 2×2 block, rounded, in steps of 32."""
    for row in range(picture.shape[0] - 1):
        for column in range(picture.shape[1] - 2):
            total = 2  # rounds the mean of four as OpenCV's INTER_AREA does
            for part in range(4):
                total += frame[2 * row + part // 2, 2 * column + part % 2]
            picture[row + 1, column + 1] = total // 4 // 32


# One long function: handing arrays to a compiled function counts references, which made this five times slower.
@numba.njit(cache=True)
def _learn(picture, seen, depth, nodes, before, after):  # type: ignore[no-untyped-def]
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
                symbol = picture[row + 1 + down, column + 1 + right]
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

            symbol = picture[row + 1, column + 1]
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
                # Both new weights come from the old ones: neither may see the other's new value.
                stop_after = (keep * stop + alpha * deeper) / q
                deeper_after = (keep * deeper + alpha * stop) / q
                nodes.weights[node, 0] = stop_after
                nodes.weights[node, 1] = deeper_after
                q_after = stop_after * _estimate(count + 1, total + 1, symbols) + deeper_after * q_after
            before[row, column] = q
            after[row, column] = q_after


@numba.njit(cache=True)
def _estimate(count, total, symbols):  # type: ignore[no-untyped-def]
    """Return the share of a symbol at a node, of which every symbol was seen 1/symbols times in advance."""
    return (symbols * count + 1.0) / (symbols * (total + 1.0))


@numba.njit(cache=True)
def _log_ratio(after, before):  # type: ignore[no-untyped-def]
    """Return the logarithm of the ratio of two products."""
    total = 0.0
    for start in range(0, after.size, 16):  # one logarithm for 16 pixels: no pixel's ratio ever comes near 1e18
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


def _packed(rows: NDArray[Any]) -> NDArray[np.uint8]:
    """Compress rows a piece at a time, so that hardly more than the result is in memory."""
    packed = bytearray()
    packer = zstandard.ZstdCompressor(LEVEL).compressobj()
    data = rows.data.cast("B")
    for start in range(0, len(data), PIECE_BYTES):
        packed += packer.compress(data[start : start + PIECE_BYTES])
    packed += packer.flush()
    return np.frombuffer(packed, np.uint8)

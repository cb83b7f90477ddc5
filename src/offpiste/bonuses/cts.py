"""Pseudo-counts from context tree switching (Veness et al., 2012; Bellemare et al., 2016).

Every pixel of the small picture has a tree of its own, which predicts its shade from the shades of four neighbours.
After the released bonus code, whose own tree is not public: 42×42 pixels in 8 shades, and no 0.01 added to the count.
The weights follow the rule as derived; public implementations change them in place and so use a weight too new.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numba
import numpy as np
import zstandard
from numpy.typing import NDArray

from offpiste.bonuses.base import Context, Transition
from offpiste.bonuses.pseudo_count import bonus_of_gain

SHADES = 8
DEPTH = 4
NEIGHBOURS = ((0, -1), (-1, 0), (-1, -1), (-1, 1))
"""Where the context of a pixel lies, the most telling neighbour first: left, up, up-left, up-right."""
LEVEL = 1
PIECE_BYTES = 2**22
_OUTSIDE = 0  # any shade will do: a neighbour that never changes only renames children


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
        """Learn the picture; the bonus is what that did to its probability."""
        shade(transition.frame, self._picture)
        before, after = self._trees.learn(self._picture)
        return bonus_of_gain(float(np.log(after / before).sum()))

    def state(self) -> dict[str, Any]:
        """Return the trees, compressed."""
        return self._trees.state()

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up where `state` was asked for."""
        self._trees.load_state(state)


class Nodes(NamedTuple):
    """The nodes of all trees in the order of their creation; node k of a table is its row k.

    Nodes at the full depth are leaves. They have only counts and a table of their own. Both tables begin with one row
    per pixel for its root, so that 0 is never anyone's child.
    """

    counts: NDArray[np.uint32]
    """How often each symbol was seen, [nodes, symbols]; without the prior."""
    children: NDArray[np.uint32]
    """The rows of the children, [nodes, symbols]; 0 where there is none. Those of the last level are leaves."""
    weights: NDArray[np.float64]
    """The chances to stop here and to go deeper, [nodes, 2]. Both are kept: of one near 1, the other would be noise."""
    leaf_counts: NDArray[np.uint32]
    used: NDArray[np.int64]
    """How many rows of the two tables are in use."""


class ContextTrees:
    """One tree per pixel, over any number of symbols and a depth of up to four."""

    def __init__(self, shape: tuple[int, int], symbols: int = SHADES, depth: int = DEPTH) -> None:
        self.shape = shape
        self.symbols = symbols
        self.depth = depth
        self.seen = 0
        self.nodes = self._no_nodes()

    def learn(self, picture: NDArray[np.uint8]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Learn a bordered picture and return the probability of each of its pixels before and after."""
        before, after = np.empty(self.shape), np.empty(self.shape)
        self.seen += 1
        _learn(picture, self.seen, self.depth, self.nodes, before, after)
        return before, after

    def state(self) -> dict[str, Any]:
        """Return what `load_state` needs; beside it only one piece of a table is in memory."""
        tables = self._tables(self.nodes)
        return {"seen": self.seen} | {name: _packed(table) for name, table in tables.items()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up where `state` was asked for."""
        nodes = self._no_nodes()
        nodes.used[:] = state["used"]
        for name, table in self._tables(nodes).items():
            _unpack(state[name], table)
        self.nodes = nodes
        self.seen = state["seen"]

    def _no_nodes(self) -> Nodes:
        pixels = self.shape[0] * self.shape[1]
        inner = pixels * max(1, sum(self.symbols**depth for depth in range(self.depth)))
        leaves = pixels * (1 + self.symbols**self.depth)
        # Room for all nodes there can ever be. The system gives memory only to rows that are written, and rows are
        # used from the first on, so this costs what the nodes in use cost.
        return Nodes(
            np.zeros((inner, self.symbols), np.uint32),
            np.zeros((inner, self.symbols), np.uint32),
            np.zeros((inner, 2)),
            np.zeros((leaves, self.symbols), np.uint32),
            np.array([pixels, pixels]),
        )

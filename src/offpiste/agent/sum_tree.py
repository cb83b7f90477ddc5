"""A sum tree: sample an index with probability proportional to its priority, in O(log n) (Schaul et al., 2016).

A parent is always computed as left + right and never incremented, so the tree is a function of its leaves: rounding
errors do not accumulate, and a checkpoint of the leaves restores it bit by bit.
"""

import math
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray


class SumTree:
    """Priorities of a fixed number of entries, all 0 at first."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._first_leaf = 2 ** max(1, math.ceil(math.log2(capacity)))
        self._nodes = np.zeros(2 * self._first_leaf)  # the children of node i are 2i and 2i + 1; node 0 is unused
        self.largest_recorded = 1.0

    @property
    def total(self) -> float:
        """The sum of all priorities."""
        return float(self._nodes[1])

    @property
    def leaves(self) -> NDArray[np.float64]:
        """The priorities, as a view."""
        return self._nodes[self._first_leaf : self._first_leaf + self._capacity]

    def set(self, indices: NDArray[np.int64], priorities: NDArray[np.float64]) -> None:
        """Set priorities; of an index given twice, the last priority counts."""
        _set(self._nodes, self._first_leaf, indices, priorities)
        self.largest_recorded = max(self.largest_recorded, float(priorities.max()))

    def set_one(self, index: int, priority: float) -> None:
        """Set one priority, at most `largest_recorded`, which stays as it is."""
        _set_one(self._nodes, self._first_leaf, index, priority)

    def find(self, fractions: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the index at each fraction, 0 to 1, of the cumulative priorities."""
        return _find(self._nodes, self._first_leaf, fractions)  # type: ignore[no-any-return]

    def state(self) -> dict[str, Any]:
        """Return the leaves and the largest priority recorded."""
        return {"leaves": self.leaves.copy(), "largest_recorded": self.largest_recorded}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        self.leaves[:] = state["leaves"]
        self.largest_recorded = state["largest_recorded"]
        width = self._first_leaf // 2
        while width:
            children = self._nodes[2 * width : 4 * width]
            self._nodes[width : 2 * width] = children[0::2] + children[1::2]
            width //= 2


@numba.njit(cache=True)
def _set_one(nodes, first_leaf, index, priority):  # type: ignore[no-untyped-def]
    node = first_leaf + index
    nodes[node] = priority
    while node > 1:
        node //= 2
        nodes[node] = nodes[2 * node] + nodes[2 * node + 1]


@numba.njit(cache=True)
def _set(nodes, first_leaf, indices, priorities):  # type: ignore[no-untyped-def]
    for k in range(indices.size):
        _set_one(nodes, first_leaf, indices[k], priorities[k])


@numba.njit(cache=True)
def _find(nodes, first_leaf, fractions):  # type: ignore[no-untyped-def]
    found = np.empty(fractions.size, np.int64)
    for k in range(fractions.size):
        rest = fractions[k] * nodes[1]
        node = 1
        while node < first_leaf:
            node *= 2
            # Never descend into an empty right subtree, whatever rounding has left of `rest`.
            if rest >= nodes[node] and nodes[node + 1] > 0.0:
                rest -= nodes[node]
                node += 1
        found[k] = node - first_leaf
    return found

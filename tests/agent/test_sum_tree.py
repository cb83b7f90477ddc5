import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from offpiste import arrays
from offpiste.agent.sum_tree import SumTree

BELOW_ONE = float(np.nextafter(1.0, 0.0))
EDGES = [0.0, 5e-324, 0.25, 0.5, 0.75, BELOW_ONE, 1.0]
PRIORITIES = st.one_of(st.just(0.0), st.floats(1e-5, 1e3), st.sampled_from([5e-324, 1e-300, 1.0, 1e15]))


def test_the_worked_example_has_mass_two_and_a_half_and_a_third_of_it_lies_in_entry_one() -> None:
    tree = tree_of([0.5, 1.0, 0.5, 0.5])
    assert tree.total == 2.5
    assert tree.find(np.array([0.3])).tolist() == [1]


@pytest.mark.parametrize(
    ("fraction", "index"),
    [(0.0, 0), (0.19, 0), (0.2, 1), (0.59, 1), (0.6, 2), (0.79, 2), (0.8, 3), (BELOW_ONE, 3), (1.0, 3)],
)
def test_an_entry_owns_its_share_of_the_mass_from_its_lower_border_on(fraction: float, index: int) -> None:
    assert tree_of([0.5, 1.0, 0.5, 0.5]).find(np.array([fraction])).tolist() == [index]


@pytest.mark.parametrize("capacity", [1, 2, 3, 5, 7, 8, 13])
def test_the_only_entry_with_mass_is_drawn_at_every_fraction(capacity: int) -> None:
    for index in range(capacity):
        priorities = np.zeros(capacity)
        priorities[index] = 0.1
        found = tree_of(priorities.tolist()).find(np.array([*EDGES, *np.linspace(0.0, 1.0, 101)]))
        assert set(found.tolist()) == {index}


@given(
    priorities=st.lists(PRIORITIES, min_size=1, max_size=21).filter(any),
    fractions=st.lists(st.floats(0.0, 1.0), max_size=20),
)
@example(priorities=[0.1, 0.2, 0.3, 0.0, 0.0], fractions=[0.9999999999999999])
@example(priorities=[0.0, 0.0, 0.7, 0.1, 0.0, 0.0, 1e-300], fractions=[0.875])
def test_a_priority_of_zero_is_never_drawn(priorities: list[float], fractions: list[float]) -> None:
    found = tree_of(priorities).find(np.array([*EDGES, *fractions]))
    assert all(0 <= index < len(priorities) for index in found)
    assert all(priorities[index] > 0.0 for index in found)


@given(priorities=st.lists(st.integers(0, 50), min_size=1, max_size=33).filter(any), data=st.data())
def test_the_entry_found_is_the_one_a_cumulative_sum_finds(priorities: list[int], data: st.DataObject) -> None:
    total = sum(priorities)
    unit = data.draw(st.integers(0, total - 1))
    found = tree_of([float(priority) for priority in priorities]).find(np.array([(unit + 0.5) / total]))
    assert found.tolist() == [int(np.searchsorted(np.cumsum(priorities), unit, side="right"))]


def test_entries_are_drawn_as_often_as_their_priority_says() -> None:
    priorities = np.array([1.0, 0.0, 2.0, 3.0, 0.5, 3.5, 0.0])
    draws = 100_000
    found = tree_of(priorities.tolist()).find(np.random.default_rng(1).random(draws))
    share = priorities / priorities.sum()
    error = np.sqrt(share * (1.0 - share) / draws)
    np.testing.assert_array_less(np.abs(np.bincount(found, minlength=7) / draws - share), 4.0 * error + 1e-12)


def test_parents_are_exact_sums_after_many_changes_and_a_rebuild_gives_the_same_bits() -> None:
    generator = np.random.default_rng(2)
    capacity = 1_000
    tree = SumTree(capacity)
    for _ in range(1_000):
        tree.set(generator.integers(0, capacity, 100), generator.exponential(1.0, 100) ** 4)
    nodes = tree._nodes
    inner = np.arange(1, nodes.size // 2)
    np.testing.assert_array_equal(nodes[inner], nodes[2 * inner] + nodes[2 * inner + 1])
    assert tree.total == pytest.approx(tree.leaves.sum(), rel=1e-12)

    rebuilt = restored(tree)
    assert rebuilt._nodes.tobytes() == nodes.tobytes()
    assert rebuilt.largest_recorded == tree.largest_recorded
    fractions = generator.random(1_000)
    np.testing.assert_array_equal(rebuilt.find(fractions), tree.find(fractions))


def test_a_restored_tree_forgets_what_it_held() -> None:
    old, tree = tree_of([9.0, 9.0, 9.0, 9.0, 9.0]), tree_of([0.0, 0.5, 0.0, 0.0, 0.25])
    old.load_state(arrays.unpack(arrays.pack(tree.state())))
    assert old._nodes.tobytes() == tree._nodes.tobytes()
    assert old.largest_recorded == 1.0


def test_the_largest_recorded_priority_starts_at_one_and_never_falls() -> None:
    tree = SumTree(4)
    assert tree.largest_recorded == 1.0
    tree.set(np.array([0]), np.array([0.3]))
    assert tree.largest_recorded == 1.0
    tree.set(np.array([1, 2]), np.array([2.5, 0.1]))
    assert tree.largest_recorded == 2.5
    tree.set(np.array([1]), np.array([0.2]))
    tree.set_one(1, 0.0)
    assert tree.largest_recorded == 2.5
    assert restored(tree).largest_recorded == 2.5


def test_of_an_index_given_twice_the_last_priority_stays() -> None:
    tree = tree_of([1.0, 1.0, 1.0])
    tree.set(np.array([1, 0, 1]), np.array([7.0, 2.0, 0.5]))
    assert tree.leaves.tolist() == [2.0, 0.5, 1.0]
    assert tree.total == 3.5
    assert tree.largest_recorded == 7.0


def test_setting_one_is_the_same_as_setting_an_array_of_one() -> None:
    one, many = tree_of([0.1, 0.7, 0.2]), tree_of([0.1, 0.7, 0.2])
    one.set_one(1, 0.9)
    many.set(np.array([1]), np.array([0.9]))
    assert one._nodes.tobytes() == many._nodes.tobytes()


def test_a_tree_of_one_entry_works() -> None:
    tree = tree_of([0.4])
    assert tree.total == 0.4
    assert tree.leaves.tolist() == [0.4]
    assert tree.find(np.array(EDGES)).tolist() == [0] * len(EDGES)
    assert restored(tree).total == 0.4


def tree_of(priorities: list[float]) -> SumTree:
    tree = SumTree(len(priorities))
    indices: NDArray[np.int64] = np.arange(len(priorities))
    tree.set(indices, np.array(priorities))
    return tree


def restored(tree: SumTree) -> SumTree:
    other = SumTree(tree.leaves.size)
    other.load_state(arrays.unpack(arrays.pack(tree.state())))
    return other

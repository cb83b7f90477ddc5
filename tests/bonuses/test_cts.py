"""Context tree switching beside exact fractions: the compiled trees, a plain reference, and sums over all paths."""

import copy
import itertools
import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from offpiste import arrays
from offpiste.bonuses import cts
from offpiste.bonuses.base import Context, Transition
from offpiste.bonuses.cts import ContextTrees, Cts, CtsOptions, bordered, shade
from offpiste.bonuses.pseudo_count import intrinsic_of_gain
from offpiste.bonuses.registry import build
from offpiste.config import BonusConfig
from offpiste.errors import CheckpointError, ConfigError
from offpiste.seeding import generator_state, stream
from tests.sameness import global_generators

HALF = Fraction(1, 2)
PIXELS = 42 * 42
RUN_FRAMES = 50_000_000


@dataclass
class Node:
    counts: list[int]
    weight: Fraction = HALF
    children: dict[int, "Node"] = field(default_factory=dict)

    def estimate(self, symbol: int) -> Fraction:
        return (self.counts[symbol] + Fraction(1, len(self.counts))) / (sum(self.counts) + 1)


class Reference:
    """One tree in exact fractions, as the specification writes it; `in_place` is the rule of public implementations."""

    def __init__(self, symbols: int, depth: int, in_place: bool = False) -> None:
        self.symbols = symbols
        self.depth = depth
        self.in_place = in_place
        self.time = 0
        self.root = Node([0] * symbols)

    def path(self, context: tuple[int, ...]) -> list[Node]:
        path = [self.root]
        for symbol in context[: self.depth]:
            path.append(path[-1].children.setdefault(symbol, Node([0] * self.symbols)))
        return path

    def predictions(self, context: tuple[int, ...], symbol: int) -> list[Fraction]:
        """Return q of every node along the path, the root's first."""
        path = self.path(context)
        mixed = [path[-1].estimate(symbol)]
        for node in reversed(path[:-1]):
            mixed.insert(0, node.weight * node.estimate(symbol) + (1 - node.weight) * mixed[0])
        return mixed

    def probability(self, context: tuple[int, ...], symbol: int) -> Fraction:
        return self.predictions(context, symbol)[0]

    def update(self, context: tuple[int, ...], symbol: int) -> None:
        self.time += 1
        alpha = Fraction(1, self.time + 1)
        mixed = self.predictions(context, symbol)
        path = self.path(context)
        for node, deeper in zip(path[:-1], mixed[1:], strict=True):
            stop = node.weight * node.estimate(symbol)
            split = (1 - node.weight) * deeper
            new_stop = (1 - alpha) * stop + alpha * split
            new_split = (1 - alpha) * split + alpha * (new_stop * node.estimate(symbol) if self.in_place else stop)
            node.weight = new_stop / (new_stop + new_split)
        for node in path:
            node.counts[symbol] += 1


# context, symbol, e_root, q_child, ρ, w_root after, ρ′, N exact, N approximate, gain, bonus
WORKED = [
    (0, 1, "1/2", "1/2", "1/2", "1/2", "3/4", "1/2", "2", 0.4054651, 0.707107),
    (0, 1, "3/4", "3/4", "3/4", "1/2", "5/6", "3/2", "9", 0.1053605, 0.333333),
    (1, 0, "1/6", "1/2", "1/3", "3/8", "39/64", "25/53", "64/53", 0.6032909, 0.910014),
]


def test_the_reference_gives_the_worked_table() -> None:
    tree = Reference(symbols=2, depth=1)
    for context, symbol, e_root, q_child, rho, weight, rho_after, exact, approximate, _, _ in WORKED:
        assert tree.root.estimate(symbol) == Fraction(e_root)
        assert tree.predictions((context,), symbol) == [Fraction(rho), Fraction(q_child)]
        before = tree.probability((context,), symbol)
        tree.update((context,), symbol)
        after = tree.probability((context,), symbol)
        assert (tree.root.weight, after) == (Fraction(weight), Fraction(rho_after))
        assert before * (1 - after) / (after - before) == Fraction(exact)
        assert 1 / (after / before - 1) == Fraction(approximate)
    assert tree.probability((0,), 1) == Fraction(145, 192)
    assert tree.probability((1,), 0) == Fraction(39, 64)


def test_the_trees_give_the_worked_table() -> None:
    trees = ContextTrees((1, 1), symbols=2, depth=1)
    for context, symbol, _, _, rho, weight, rho_after, exact, approximate, gain, bonus in WORKED:
        before, after = learn_one(trees, (context,), symbol)
        assert (before, after) == (near(rho), near(rho_after))
        assert trees.nodes.weights[0].tolist() == [near(weight), near(1 - Fraction(weight))]
        assert before * (1 - after) / (after - before) == near(exact, 1e-14)
        assert 1 / (after / before - 1) == near(approximate, 1e-14)
        assert math.log(after / before) == pytest.approx(gain, abs=5e-8)
        assert intrinsic_of_gain(math.log(after / before)) == pytest.approx(bonus, abs=5e-7)
    assert learn_one(copy.deepcopy(trees), (0,), 1)[0] == near("145/192")
    assert learn_one(copy.deepcopy(trees), (1,), 0)[0] == near("39/64")


def test_the_in_place_rule_differs_from_the_first_step_on() -> None:
    tree = Reference(symbols=2, depth=1, in_place=True)
    weights = []
    for context, symbol, *_ in WORKED:
        before = tree.probability((context,), symbol)
        tree.update((context,), symbol)
        weights.append(tree.root.weight)
    assert weights == [Fraction(4, 7), Fraction(44, 79), Fraction(1896, 4495)]
    assert (before, tree.probability((1,), 0)) == (Fraction(149, 474), Fraction(10641, 17980))


@pytest.mark.parametrize("symbols", range(2, 9))
@pytest.mark.parametrize("depth", range(5))
def test_the_trees_agree_with_the_reference(symbols: int, depth: int) -> None:
    shape = (2, 3)
    trees = ContextTrees(shape, symbols, depth)
    references = [Reference(symbols, depth) for _ in range(6)]
    for shades in random_shades(12, shape, symbols, seed=10 * symbols + depth):
        seen = [(pixel_context(shades, row, column), int(shades[row + 1, column + 1])) for row, column in grid(shape)]
        expected = [tree.probability(*pixel) for tree, pixel in zip(references, seen, strict=True)]
        for tree, pixel in zip(references, seen, strict=True):
            tree.update(*pixel)
        expected_after = [tree.probability(*pixel) for tree, pixel in zip(references, seen, strict=True)]
        before, after = trees.learn(shades)
        np.testing.assert_allclose(before.ravel(), [float(value) for value in expected], rtol=1e-13)
        np.testing.assert_allclose(after.ravel(), [float(value) for value in expected_after], rtol=1e-13)


@pytest.mark.parametrize("seed", range(4))
def test_the_recursion_is_the_sum_over_all_paths_and_the_in_place_rule_is_not(seed: int) -> None:
    """A path says for each of nine symbols whether it was predicted at the root or by the child for its context."""
    steps, symbols = 9, 3
    draws = np.random.default_rng(seed).integers(0, [2, symbols], (steps, 2)).tolist()
    experts = []  # for each step, the estimates of the root and of the child, from plain counts
    for step, (context, symbol) in enumerate(draws):
        earlier = draws[:step]
        in_context = [known for where, known in earlier if where == context]
        everywhere = [known for _, known in earlier]
        experts.append(
            [(known.count(symbol) + Fraction(1, 3)) / (len(known) + 1) for known in (everywhere, in_context)]
        )
    total = Fraction(0)
    for path in itertools.product((0, 1), repeat=steps):
        probability = HALF
        for step, state in enumerate(path):
            if step:
                alpha = Fraction(1, step + 1)
                probability *= 1 - alpha if state == path[step - 1] else alpha
            probability *= experts[step][state]
        total += probability

    products = {}
    for in_place in (False, True):
        tree = Reference(symbols, depth=1, in_place=in_place)
        products[in_place] = Fraction(1)
        for context, symbol in draws:
            products[in_place] *= tree.probability((context,), symbol)
            tree.update((context,), symbol)
    assert products[False] == total
    assert products[True] != total

    trees = ContextTrees((1, 1), symbols, depth=1)
    compiled = math.prod(learn_one(trees, (context,), symbol)[0] for context, symbol in draws)
    assert compiled == near(total, 1e-14)


def test_the_probabilities_of_all_symbols_add_up_to_one_in_every_context() -> None:
    trees = ContextTrees((1, 1), symbols=3, depth=4)
    generator = np.random.default_rng(3)
    for *context, symbol in generator.choice(3, (60, 5), p=[0.6, 0.3, 0.1]).tolist():
        learn_one(trees, tuple(context), symbol)
    for context in itertools.product(range(3), repeat=4):
        probabilities = [learn_one(copy.deepcopy(trees), context, symbol)[0] for symbol in range(3)]
        assert sum(probabilities) == pytest.approx(1.0, rel=1e-14)


def test_the_probabilities_of_all_frames_add_up_to_one() -> None:
    shape = (2, 3)
    trees = ContextTrees(shape, symbols=2)
    for shades in random_shades(20, shape, 2, seed=4):
        trees.learn(shades)
    total = 0.0
    for pixels in itertools.product(range(2), repeat=6):
        shades = bordered(shape)
        shades[1:, 1:-1] = np.reshape(pixels, shape)
        total += float(copy.deepcopy(trees).learn(shades)[0].prod())
    assert total == pytest.approx(1.0, rel=1e-13)


@pytest.mark.parametrize("symbols", [2, 5, 8])
def test_without_context_the_exact_pseudo_count_is_the_count_and_the_prior(symbols: int) -> None:
    trees = ContextTrees((1, 1), symbols, depth=0)
    for count in range(4):
        learn_one(trees, (), 0)  # other symbols do not matter
        before, after = learn_one(trees, (), 1)
        assert before * (1 - after) / (after - before) == near(count + Fraction(1, symbols), 1e-13)


@pytest.mark.parametrize("structured", [False, True])
def test_a_frame_seen_again_and_again_pays_what_the_formula_says(structured: bool) -> None:
    frame = np.full((84, 84), 100, np.uint8)
    if structured:
        frame = np.random.default_rng(5).integers(0, 256, (84, 84), np.uint8)
    known = {0: 2653.1925, 1: 406.6437, 10: 12.658178, 100: 0.151128, 1000: 0.001540}
    by_gain, by_bonus = new_cts(), new_cts()
    for seen in range(1001):
        gain, bonus = by_gain.gain(frame), by_bonus.observe(transition(frame))
        formula = PIXELS * math.log1p((1 - 1 / 8) / ((seen + 1 / 8) * (seen + 2)))
        assert gain == pytest.approx(formula, rel=1e-7)
        assert bonus == intrinsic_of_gain(gain)
        if seen in known:
            assert gain == pytest.approx(known[seen], rel=5e-4 if seen == 1000 else 5e-6)
    assert intrinsic_of_gain(PIXELS * math.log1p(0.875 / (100.125 * 102))) == pytest.approx(0.403913, abs=5e-7)
    assert bonus == pytest.approx(0.039261, abs=5e-7)


def test_the_gain_is_the_sum_of_the_gains_of_all_pixels() -> None:
    bonus, trees, shades = new_cts(), ContextTrees((42, 42)), bordered((42, 42))
    for frame in np.random.default_rng(13).integers(0, 256, (5, 84, 84), np.uint8) // 4:
        shade(frame, shades)
        before, after = trees.learn(shades)
        assert bonus.gain(frame) == pytest.approx(math.fsum((np.log(after) - np.log(before)).ravel()), rel=1e-12)


def test_a_new_frame_pays_more_than_one_seen_before() -> None:
    bonus = new_cts()
    frames = np.random.default_rng(6).integers(0, 256, (2, 84, 84), np.uint8)
    for _ in range(50):
        bonus.observe(transition(frames[0]))
    other = frames[0].copy()
    other[20:24, 30:34] = 255 - other[20:24, 30:34]  # four pixels of the small frame
    familiar, slightly_new, new = (bonus.observe(transition(frame)) for frame in (frames[0], other, frames[1]))
    assert 0.0 < familiar < slightly_new < new


def test_what_lies_outside_the_frame_does_not_matter() -> None:
    shape = (4, 5)
    every = [ContextTrees(shape) for _ in range(8)]
    for shades in random_shades(100, shape, 8, seed=7):
        gains = []
        for outside, trees in enumerate(every):
            same = bordered(shape, outside)
            same[1:, 1:-1] = shades[1:, 1:-1]
            gains.append(trees.learn(same))
        for before, after in gains[1:]:
            np.testing.assert_array_equal(before, gains[0][0])
            np.testing.assert_array_equal(after, gains[0][1])


def test_the_context_is_left_then_up_then_up_left_then_up_right() -> None:
    trees = ContextTrees((2, 3), symbols=8)
    shades = bordered((2, 3))
    shades[1:, 1:-1] = [[3, 2, 4], [1, 7, 5]]
    trees.learn(shades)
    node = 4  # the root of the pixel in the middle of the lower row
    for symbol in (1, 2, 3, 4):
        assert trees.nodes.children[node].nonzero()[0].tolist() == [symbol]
        node = int(trees.nodes.children[node, symbol])
    assert trees.nodes.leaf_counts[node].tolist() == [0, 0, 0, 0, 0, 0, 0, 1, 1]


def test_only_contexts_that_were_seen_take_a_row_and_there_is_room_for_all() -> None:
    bonus = new_cts()
    for _ in range(3):
        bonus.gain(np.zeros((84, 84), np.uint8))
    assert bonus._trees.nodes.used.tolist() == [4 * PIXELS, 2 * PIXELS]  # the roots of the leaves' table are unused

    trees = ContextTrees((1, 1), symbols=3)
    for context in itertools.product(range(3), repeat=4):
        learn_one(trees, context, 0)
    assert trees.nodes.used.tolist() == [len(trees.nodes.counts), len(trees.nodes.leaf_counts)] == [40, 82]


@pytest.mark.parametrize("small", [Fraction(1, RUN_FRAMES), Fraction(1, 3 * 10**6)])
@pytest.mark.parametrize("sure_to_stop", [False, True])
def test_after_fifty_million_frames_one_more_still_moves_every_number_and_exactly(
    small: Fraction, sure_to_stop: bool
) -> None:
    trees, reference, context = old_tree(small, sure_to_stop)
    weights_before = trees.nodes.weights.copy()
    expected = float(reference.probability(context, 3))
    before, after = learn_one(trees, context, 3)
    reference.update(context, 3)
    assert before == pytest.approx(expected, rel=1e-14)
    assert after == pytest.approx(float(reference.probability(context, 3)), rel=1e-14)
    for row, node in enumerate(reference.path(context)[:-1]):
        stop, deeper = trees.nodes.weights[row].tolist()
        assert stop != weights_before[row, 0]
        assert deeper != weights_before[row, 1]
        assert stop == near(node.weight, 1e-14)
        assert deeper == near(1 - node.weight, 1e-14)  # 1 - stop would be wrong from the ninth digit on
    for table, row, node in counted(trees, reference, context):
        assert table[row].tolist() == [*node.counts, sum(node.counts)]


def test_a_tree_that_was_sure_for_fifty_million_frames_changes_its_mind_within_five() -> None:
    trees, _, context = old_tree(Fraction(1, RUN_FRAMES), sure_to_stop=False)
    trees.nodes.weights[0] = trees.nodes.weights[0, ::-1].copy()
    trees.nodes.counts[0, 3] = 0  # the trusted root has never seen what the leaf always saw
    trees.nodes.leaf_counts[1] = [0, 0, 0, 1_000, 0, 0, 0, 0, 1_000]
    probabilities = [learn_one(trees, context, 3)[0] for _ in range(5)]
    assert probabilities[0] < 1e-6
    assert probabilities[-1] > 0.9
    assert trees.nodes.weights[0, 1] > 0.9


def test_weights_stay_within_the_switching_rate_of_both_ends() -> None:
    trees = ContextTrees((3, 3))
    for seen, shades in enumerate(random_shades(2_000, (3, 3), 8, seed=8), start=1):
        trees.learn(shades)
        if seen % 100 == 0:
            weights = trees.nodes.weights[: trees.nodes.used[0]]
            np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-14)
            assert weights.min() > 0.999 / (seen + 1)
    totals = trees.nodes.counts[: trees.nodes.used[0]]
    np.testing.assert_array_equal(totals[:, :8].sum(axis=1), totals[:, 8])
    np.testing.assert_array_equal(totals[:9, 8], 2_000)


def test_shades_are_means_by_area_in_steps_of_32() -> None:
    generator = np.random.default_rng(9)
    shades = bordered((42, 42), outside=9)
    found = set()
    for low, high in [(0, 256)] * 20 + [(edge - 3, min(edge + 3, 256)) for edge in range(32, 257, 32)] * 5:
        frame = generator.integers(low, high, (84, 84), np.uint8)
        shade(frame, shades)
        by_area = cv2.resize(frame, (42, 42), interpolation=cv2.INTER_AREA)
        np.testing.assert_array_equal(shades[1:, 1:-1], by_area // 32)
        found.update(np.unique(shades[1:, 1:-1]).tolist())
    assert found == set(range(8))
    assert (shades[0] == 9).all()
    assert (shades[:, [0, -1]] == 9).all()


@pytest.mark.parametrize("piece_bytes", [1_000, 2**22])
def test_a_restored_bonus_continues_exactly(monkeypatch: pytest.MonkeyPatch, piece_bytes: int) -> None:
    monkeypatch.setattr(cts, "PIECE_BYTES", piece_bytes)
    generator = np.random.default_rng(10)
    frames = generator.integers(0, 256, (40, 84, 84), np.uint8)
    bonus, used = new_cts(), new_cts()
    for frame in frames[:20]:
        bonus.observe(transition(frame))
    for frame in frames[15:]:
        used.observe(transition(frame))
    state = bonus.state()
    assert all(value.dtype == np.uint8 for value in state.values() if isinstance(value, np.ndarray))
    packed = arrays.pack(state)
    expected = [bonus.gain(frame) for frame in frames[10:]]
    assert arrays.pack(state) == packed  # later updates do not change a state returned before
    for other in (new_cts(), used):
        other.load_state(arrays.unpack(packed))
        assert arrays.pack(other.state()) == packed
        assert [other.gain(frame) for frame in frames[10:]] == expected
        assert arrays.pack(other.state()) == arrays.pack(bonus.state())


def test_a_fresh_bonus_can_be_saved_and_restored() -> None:
    frame = np.random.default_rng(11).integers(0, 256, (84, 84), np.uint8)
    bonus = new_cts()
    bonus.gain(frame)
    bonus.load_state(arrays.unpack(arrays.pack(new_cts().state())))
    assert bonus.gain(frame) == new_cts().gain(frame)


def test_a_state_cut_short_is_refused() -> None:
    state = new_cts().state()
    state["weights"] = state["weights"][:-20]
    with pytest.raises(CheckpointError, match=r"the weights of the trees must be [\d,]+ bytes, got"):
        new_cts().load_state(state)


@pytest.mark.parametrize(
    ("table", "row", "column", "value"),
    [
        ("children", 0, 0, 2**32 - 1),  # far outside
        ("children", 0, 0, 2**20 - 1),  # in the table, but not in use
        ("children", 0, 0, PIXELS + 3),  # the child of another
        ("children", 0, 0, 5),  # a root
        ("counts", 7, 2, 1_000),
        ("leaf_counts", PIXELS, 8, 9),
        ("weights", 3, 0, 0.0),
        ("weights", 3, 1, 2.0),
        ("weights", 3, 0, math.nan),
    ],
)
def test_nodes_that_are_no_trees_are_refused(table: str, row: int, column: int, value: float) -> None:
    """Learning would write outside of its tables, or divide by zero."""
    bonus = new_cts()
    for frame in np.random.default_rng(12).integers(0, 256, (3, 84, 84), np.uint8):
        bonus.observe(transition(frame))
    new_cts().load_state(bonus.state())
    rows = getattr(bonus._trees.nodes, table)
    assert rows[row, column] != value
    rows[row, column] = value
    with pytest.raises((CheckpointError, IndexError), match=r"no trees|out of bounds"):
        new_cts().load_state(bonus.state())


@pytest.mark.parametrize("used", [[0, 0], [PIXELS, PIXELS + 1], [2**40, PIXELS], [-1, -1]])
def test_more_or_fewer_nodes_than_there_are_are_refused(used: list[int]) -> None:
    state = new_cts().state() | {"used": used}
    with pytest.raises((CheckpointError, ValueError), match="the checkpoint is broken"):
        new_cts().load_state(state)


def test_observing_changes_no_input_and_no_generator_and_sees_the_newest_frame_only() -> None:
    generator = stream(0, "bonus")
    bonus = Cts(CtsOptions(), Context("montezuma_revenge", 18, 4, (84, 84), generator))
    state = np.random.default_rng(12).integers(0, 256, (4, 84, 84), np.uint8)
    state.setflags(write=False)
    ram = np.zeros(128, np.uint8)
    step = Transition(state, 1, 1.0, state[::-1], False, False, 0, ram)
    inputs, draws = state.tobytes(), (*global_generators(), generator_state(generator))
    bonuses = [bonus.observe(step) for _ in range(3)]
    assert state.tobytes() == inputs
    assert not ram.any()
    assert (*global_generators(), generator_state(generator)) == draws
    same = new_cts()
    assert bonuses == [same.observe(transition(state[-1])) for _ in range(3)]


def test_it_is_made_by_its_import_path_and_has_no_options() -> None:
    path = "offpiste.bonuses.cts:Cts"
    context = Context("montezuma_revenge", 18, 4, (84, 84), stream(0, "bonus"))
    assert isinstance(build(BonusConfig(name=path), context), Cts)
    with pytest.raises(ConfigError, match=r"bonus\.options\.depth"):
        build(BonusConfig(name=path, options={"depth": 3}), context)


def near(value: Fraction | str, relative: float = 1e-15) -> Any:
    return pytest.approx(float(Fraction(value)), rel=relative, abs=0.0)


def learn_one(trees: ContextTrees, context: tuple[int, ...], symbol: int) -> tuple[float, float]:
    """Learn one symbol in a frame of one pixel, whose neighbours all lie in the border."""
    left, up, up_left, up_right = (*context, 0, 0, 0, 0)[:4]
    shades = np.array([[up_left, up, up_right], [left, symbol, 0]], np.uint8)
    before, after = trees.learn(shades)
    return before.item(), after.item()


def random_shades(count: int, shape: tuple[int, int], symbols: int, seed: int) -> list[NDArray[np.uint8]]:
    """Return bordered frames in which the first symbols are far more frequent, so that contexts come again."""
    generator = np.random.default_rng(seed)
    probabilities = 0.4 ** np.arange(symbols)
    drawn = []
    for _ in range(count):
        shades = bordered(shape)
        shades[1:, 1:-1] = generator.choice(symbols, shape, p=probabilities / probabilities.sum())
        drawn.append(shades)
    return drawn


def grid(shape: tuple[int, int]) -> list[tuple[int, int]]:
    return list(itertools.product(range(shape[0]), range(shape[1])))


def pixel_context(shades: NDArray[np.uint8], row: int, column: int) -> tuple[int, ...]:
    above = shades[row]  # the border shifts rows and columns by one
    return int(shades[row + 1, column]), int(above[column + 1]), int(above[column]), int(above[column + 2])


def old_tree(small: Fraction, sure_to_stop: bool) -> tuple[ContextTrees, Reference, tuple[int, ...]]:
    """Return one tree as after the frames of a whole run, compiled and exact, and the only context it has seen."""
    context = (1, 2, 3, 4)
    trees, reference = ContextTrees((1, 1)), Reference(symbols=8, depth=4)
    learn_one(trees, context, 3)
    trees.seen = reference.time = RUN_FRAMES
    share = RUN_FRAMES
    for table, row, node in counted(trees, reference, context):
        node.counts = [share // 16] * 7 + [share - 7 * (share // 16)]
        node.weight = 1 - small if sure_to_stop else small
        table[row] = [*node.counts, share]
        share -= 3  # the context hardly ever changed, so the leaf is as old as the root
    sure, unsure = float(1 - small), float(small)
    trees.nodes.weights[:4] = [sure, unsure] if sure_to_stop else [unsure, sure]
    return trees, reference, context


def counted(
    trees: ContextTrees, reference: Reference, context: tuple[int, ...]
) -> list[tuple[NDArray[np.uint32], int, Node]]:
    """Return where the nodes of the only path are: their table, their row, and their like in the reference."""
    rows = [(trees.nodes.counts, level) for level in range(4)] + [(trees.nodes.leaf_counts, 1)]
    return [(table, row, node) for (table, row), node in zip(rows, reference.path(context), strict=True)]


def new_cts() -> Cts:
    return Cts(CtsOptions(), Context("montezuma_revenge", 18, 4, (84, 84), stream(0, "bonus")))


def transition(frame: NDArray[np.uint8]) -> Transition:
    state = np.repeat(frame[None], 4, axis=0)
    return Transition(state, 0, 0.0, state, False, False, 0, np.zeros(128, np.uint8))

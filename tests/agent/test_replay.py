"""The replay beside a plain list of everything that was ever added, and cases worked out by hand."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from numpy.typing import NDArray

from offpiste import arrays
from offpiste.agent import frames as frames_module
from offpiste.agent.mixing import targets
from offpiste.agent.replay import Replay, chunk_slots
from offpiste.config import AgentConfig, BonusConfig
from offpiste.errors import ConfigError
from offpiste.seeding import generator_state, restore_generator, stream
from offpiste.types import Batch

SHAPE = (6, 5)
SEEDS = st.integers(0, 2**32 - 1)


def test_the_return_of_rewards_one_zero_and_minus_one_is_0_0199() -> None:
    replay = new_replay(24)
    play(replay, [1.0, 0.0, -1.0, 1.0, 1.0, 1.0, 1.0], ends=False)
    batch = sample_at(replay, 3)
    assert returns_of(batch) == pytest.approx([0.0199], abs=1e-7)
    assert batch.terminal.tolist() == [False]
    assert batch.actions.tolist() == [[1, 2, 3]]


@pytest.mark.parametrize(
    ("index", "value", "terminal"),
    [
        (3, 1.0 + 0.99 * 0.5 + 0.99**2 * 0.25, False),  # the three steps before the last
        (4, 0.5 + 0.99 * 0.25 - 0.99**2, True),  # the last step is the third
        (5, 0.25 - 0.99, True),  # the last step is the second, and then comes padding
        (6, -1.0, True),  # the last step itself; the reward of 1 after it belongs to another episode
    ],
)
def test_the_end_of_an_episode_cuts_the_sum(index: int, value: float, terminal: bool) -> None:
    replay = new_replay(40)
    play(replay, [1.0, 0.5, 0.25, -1.0])
    play(replay, [1.0] * 8, ends=False)
    batch = sample_at(replay, index)
    assert returns_of(batch) == pytest.approx([value], abs=1e-6)
    assert batch.terminal.tolist() == [terminal]


@pytest.mark.parametrize(
    ("index", "value", "steps"),
    [
        (3, 1.0 + 0.99 * 0.5 + 0.99**2 * 0.25, 3),  # bootstraps from the state before the last step
        (4, 0.5 + 0.99 * 0.25 - 0.99**2, 3),  # from the state in which the limit cut the episode
        (5, 0.25 - 0.99, 2),  # the same one, two steps later instead of three
        (6, -1.0, 1),
    ],
)
def test_a_limit_cuts_the_sum_and_the_return_bootstraps_from_the_state_that_it_left(
    index: int, value: float, steps: int
) -> None:
    replay = new_replay(40)
    played = play(replay, [1.0, 0.5, 0.25, -1.0], ends=False)
    last = np.full(SHAPE, 99, np.uint8)
    replay.cut(last)
    play(replay, [1.0] * 8, ends=False)
    batch = sample_at(replay, index)
    assert returns_of(batch) == pytest.approx([value], abs=1e-6)
    assert (batch.terminal.tolist(), batch.steps.tolist()) == ([False], [steps])
    blank = np.zeros(SHAPE, np.uint8)
    shown = [blank, blank, blank, *played, last]
    np.testing.assert_array_equal(batch.states[0], shown[index - 3 : index + 1])
    np.testing.assert_array_equal(batch.next_states[0], shown[index - 3 + steps : index + 1 + steps])


def test_the_last_frame_of_an_episode_that_was_cut_is_never_drawn_and_padding_follows_it() -> None:
    replay = new_replay(40)
    play(replay, [0.0, 0.0], ends=False)  # 3 and 4
    replay.cut(np.full(SHAPE, 99, np.uint8))  # 5
    play(replay, [0.0] * 6, ends=False)  # 9 to 14
    assert valid_indices(replay) == [3, 4, 9, 10, 11]
    assert leaves(replay)[:10] == [0, 0, 0, 1, 1, 0, 0, 0, 0, 1]


def test_what_an_action_led_to_is_the_state_one_step_later_unless_the_game_ended() -> None:
    replay = new_replay(40)
    played = play(replay, [0.0, 0.0, 0.0])  # 3 to 5, the last of which is terminal
    cut = play(replay, [0.0, 0.0], ends=False)  # 9 and 10
    last = np.full(SHAPE, 99, np.uint8)
    replay.cut(last)
    play(replay, [0.0] * 8, ends=False)
    blank = np.zeros(SHAPE, np.uint8)
    for index, following in ((3, [blank, blank, *played[:2]]), (4, [blank, *played]), (10, [blank, *cut, last])):
        batch = sample_at(replay, index)
        assert batch.has_following.tolist() == [True]
        np.testing.assert_array_equal(batch.following[0], following)
    assert sample_at(replay, 5).has_following.tolist() == [False]


def test_a_uniform_sample_holds_every_valid_transition_equally_often_and_leaves_priorities_alone() -> None:
    replay = new_replay(40)
    assert replay.sample_uniformly(2, stream(0, "test")) is None
    play(replay, [0.0] * 3)
    play(replay, [0.0] * 8, ends=False)
    replay.update_priorities(np.array([3]), np.array([1e6]))
    agents = replay.sample(4)
    frames = agents.frames.copy()
    generator = stream(0, "test")
    batch = replay.sample_uniformly(6_000, generator)
    assert batch is not None
    found, counts = np.unique(batch.indices, return_counts=True)
    assert found.tolist() == valid_indices(replay)
    assert counts.min() > 0.8 * counts.mean()
    np.testing.assert_array_equal(agents.frames, frames)  # each has memory of its own
    np.testing.assert_array_equal(batch.states[0], sample_at(replay, int(batch.indices[0])).states[0])


def test_a_weighted_sample_is_in_proportion_to_weights_of_the_valid_entries() -> None:
    replay = new_replay(12)
    generator = stream(0, "test")
    assert replay.sample_weighted(2, generator, np.ones_like) is None
    play(replay, [0.0] * 4)
    play(replay, [0.0] * 12, ends=False)
    shown: list[NDArray[np.int64]] = []

    def weights(numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        shown.append(numbers)
        return np.where(numbers == replay.added - 6, 0.0, np.where(numbers % 2, 3.0, 1.0))

    batch = replay.sample_weighted(9_000, generator, weights)
    assert batch is not None
    (held,) = shown
    assert held.tolist() == [*range(replay.added - 12, replay.added)]
    valid = {int(number) for number in held if number % 12 in valid_indices(replay)}
    found, counts = np.unique(batch.numbers, return_counts=True)
    assert {*found.tolist()} == valid - {replay.added - 6}
    shares = np.where(found % 2, 3.0, 1.0)
    np.testing.assert_allclose(counts / 9_000, shares / shares.sum(), atol=0.03)
    np.testing.assert_array_equal(batch.indices, batch.numbers % 12)
    np.testing.assert_array_equal(batch.states[0], sample_at(replay, int(batch.indices[0])).states[0])


@pytest.mark.parametrize("weight", [0.0, -1.0, np.nan, np.inf])
def test_weights_that_are_no_shares_are_refused(weight: float) -> None:
    replay = new_replay(40)
    play(replay, [0.0] * 12, ends=False)
    with pytest.raises(ConfigError, match="one finite number >= 0 for each, and not all 0"):
        replay.sample_weighted(2, stream(0, "test"), lambda numbers: np.full(len(numbers), weight))
    with pytest.raises(ConfigError, match="one finite number"):
        replay.sample_weighted(2, stream(0, "test"), lambda _: np.ones(3))


def test_a_reward_in_the_window_but_in_the_next_episode_is_not_counted_even_without_padding() -> None:
    replay = new_replay(24, stack=1)
    play(replay, [0.5])
    play(replay, [1.0] * 8, ends=False)
    assert returns_of(sample_at(replay, 0)) == pytest.approx([0.5])


def test_the_first_stack_of_an_episode_is_filled_with_zeros() -> None:
    replay = new_replay(40)
    first, second = play(replay, [0.0] * 5), play(replay, [0.0] * 8, ends=False)
    for start, frames in ((0, first), (8, second)):
        blank = np.zeros(SHAPE, np.uint8)
        batch = sample_at(replay, start + 3)
        np.testing.assert_array_equal(batch.frames[0, :4], [blank, blank, blank, frames[0]])
        np.testing.assert_array_equal(batch.frames[0, 3:], frames[:4])
        batch = sample_at(replay, start + 4)
        np.testing.assert_array_equal(batch.frames[0, :4], [blank, blank, *frames[:2]])


def test_padding_counts_as_added_and_has_priority_zero() -> None:
    replay = new_replay(40)
    play(replay, [0.0, 0.0])
    assert replay.added == 5
    play(replay, [0.0])
    play(replay, [0.0, 0.0], ends=False)
    play(replay, [0.0], ends=False)  # the same episode, so nothing is padded
    assert replay.added == 5 + 4 + 6
    assert leaves(replay)[:15] == [0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1]


def test_a_new_transition_gets_the_largest_priority_ever_recorded() -> None:
    replay = new_replay(40)
    play(replay, [0.0] * 3, ends=False)
    replay.update_priorities(np.array([3, 4]), np.array([2.5, 0.5]))
    replay.update_priorities(np.array([3]), np.array([0.25]))
    play(replay, [0.0, 0.0])
    play(replay, [0.0])
    assert leaves(replay)[:12] == [0, 0, 0, 0.25, 0.5, 1, 2.5, 2.5, 0, 0, 0, 2.5]


def test_entries_around_the_cursor_are_invalid_once_the_replay_is_full() -> None:
    replay = new_replay(20)
    play(replay, [0.0] * 14, ends=False)
    assert valid_indices(replay) == list(range(3, 14))  # 17 entries: three behind and three ahead are missing
    play(replay, [0.0] * 3, ends=False)
    assert valid_indices(replay) == list(range(4, 17))  # full, cursor 0: [-3, 3]
    play(replay, [0.0] * 5, ends=False)
    assert valid_indices(replay) == [0, 1, *range(9, 20)]  # cursor 5: [2, 8]


def test_a_stack_that_reaches_over_the_end_of_an_episode_is_invalid() -> None:
    replay = new_replay(40)
    play(replay, [0.0, 0.0])  # 3 and 4, after the padding
    play(replay, [0.0] * 6, ends=False)  # 8 to 13
    assert valid_indices(replay) == [3, 4, 8, 9, 10]


@pytest.mark.parametrize(("clip_sum", "value"), [(True, 1.0), (False, 5.25)])
def test_the_sum_of_extrinsic_and_intrinsic_is_clipped_where_the_method_says_so(clip_sum: bool, value: float) -> None:
    replay = new_replay(24, steps=1)
    play(replay, [0.25] * 4, [5.0] * 4, ends=False)
    assert returns_of(sample_at(replay, 3), BonusConfig(clip_sum=clip_sum)) == pytest.approx([value])


@pytest.mark.parametrize(
    ("clip_sum", "value"),
    [(True, 1.0 + 0.99 * 0.25 - 0.99**2), (False, 3.5 + 0.99 * 0.25 - 0.99**2 * 3.5)],
)
def test_extrinsic_and_intrinsic_are_mixed_step_by_step_before_they_are_summed(clip_sum: bool, value: float) -> None:
    replay = new_replay(24)
    play(replay, [1.0, 0.0, -1.0, 0.0, 0.0, 0.0], [5.0, 0.5, -5.0, 0.0, 0.0, 0.0], ends=False)
    bonus = BonusConfig(scale=0.5, clip_sum=clip_sum)
    assert returns_of(sample_at(replay, 3), bonus) == pytest.approx([value], abs=1e-6)


def test_a_replay_too_small_to_sample_says_so_after_a_thousand_redraws() -> None:
    generator, same = stream(1, "replay"), stream(1, "replay")
    replay = new_replay(24, generator=generator)
    play(replay, [0.0, 0.0], ends=False)
    assert valid_indices(replay) == []
    with pytest.raises(ConfigError, match="no valid transition in 1,000 draws"):
        replay.sample(4)
    same.random(4 + 1_000)
    assert generator_state(generator) == generator_state(same)


def test_an_empty_replay_cannot_be_sampled() -> None:
    with pytest.raises(ConfigError, match=r"raise agent\.replay_capacity"):
        new_replay(24).sample(1)


def test_each_equal_part_of_the_mass_gives_one_transition_of_the_batch() -> None:
    replay = new_replay(200)
    play(replay, [0.0] * 160, ends=False)
    for index in range(3, 163):
        replay.update_priorities(np.array([index]), np.array([float(3 <= index < 131)]))
    for _ in range(20):
        np.testing.assert_array_equal((replay.sample(32).indices - 3) // 4, np.arange(32))


def test_a_batch_carries_the_priorities_of_the_time_of_the_draw() -> None:
    replay = new_replay(40)
    play(replay, [0.0] * 20, ends=False)
    replay.update_priorities(np.arange(3, 23), np.linspace(0.1, 2.0, 20))
    batch = replay.sample(8)
    before = np.linspace(0.1, 2.0, 20)[batch.indices - 3]
    replay.update_priorities(batch.indices, np.full(8, 9.0))
    np.testing.assert_array_equal(batch.priorities, before)


@pytest.mark.parametrize(("capacity", "slots"), [(1, 1), (3, 1), (13, 3), (40, 10), (16_384, 4_096), (10**6, 4_096)])
def test_a_chunk_has_4096_slots_or_a_quarter_of_a_small_replay(capacity: int, slots: int) -> None:
    assert chunk_slots(capacity) == slots


def test_an_immutable_object_keeps_its_bytes_as_long_as_all_its_entries_are_kept() -> None:
    replay = new_replay(64)  # chunks of 16
    seen: dict[str, bytes] = {}
    for length in (9, 1, 12, 30, 2, 2, 40, 25):
        play(replay, [0.5] * length)
        for name, pack in replay.immutable().items():
            kind, _, number = name.partition("/")
            if kind == "dictionary" or int(number) * 16 >= replay.added - 64:
                data = pack()
                assert seen.setdefault(name, data) == data
    assert len(seen) > 8
    assert any(name.startswith("dictionary/") for name in seen)


def test_immutable_objects_saved_long_ago_restore_only_what_is_still_kept_in_whatever_order_they_come() -> None:
    replay = new_replay(13)  # chunks of 3, so that their borders fall elsewhere each time round
    saved: dict[str, bytes] = {}
    for number in range(60):
        play(replay, [number / 64.0], [float(number)], ends=number % 9 == 8)
        saved = {name: saved.get(name) or pack() for name, pack in replay.immutable().items()}
        other = new_replay(13)
        other.load_state(arrays.unpack(arrays.pack(replay.state())), dict(reversed(saved.items())))
        expected, found = replay.decoded(), other.decoded()
        assert found.keys() == expected.keys()
        for key, column in expected.items():
            np.testing.assert_array_equal(found[key], column, err_msg=key)
        np.testing.assert_array_equal(other.frames_of(found["numbers"]), replay.frames_of(expected["numbers"]))


class Entry(NamedTuple):
    frame: NDArray[np.uint8]
    action: int
    extrinsic: float
    intrinsic: float
    terminal: bool
    last_frame: bool = False


class Transition(NamedTuple):
    entry: int
    priority: float
    frames: list[NDArray[np.uint8]]
    action: int
    value: float
    terminal: bool
    steps: int


class NaiveReplay:
    """All entries that were ever added, padding included, and nothing clever."""

    def __init__(self, capacity: int, stack: int, steps: int, bonus: BonusConfig, generator: np.random.Generator):
        self.capacity, self.stack, self.steps, self.bonus = capacity, stack, steps, bonus
        self.generator = generator
        self.entries: list[Entry] = []
        self.priorities = [0.0] * capacity
        self.largest = 1.0

    def add(self, entry: Entry) -> None:
        if not self.entries or self.entries[-1].terminal:
            for _ in range(self.stack - 1):
                self._keep(Entry(np.zeros(SHAPE, np.uint8), 0, 0.0, 0.0, False), 0.0)
        self._keep(entry, self.largest)

    def cut(self, frame: NDArray[np.uint8]) -> None:
        self._keep(Entry(frame, 0, 0.0, 0.0, True, last_frame=True), 0.0)

    def number(self, index: int) -> int:
        """Return the latest number of an entry that lies at an index, or -1."""
        return max(range(index, len(self.entries), self.capacity), default=-1)

    def valid(self, index: int) -> bool:
        number, cursor = self.number(index), len(self.entries) % self.capacity
        around = {(cursor + offset) % self.capacity for offset in range(-self.steps, self.stack)}
        behind = range(number - self.stack + 1, number)
        if number < 0 or behind.start < 0 or number + self.steps >= len(self.entries) or index in around:
            return False
        return not self.entries[number].last_frame and not any(self.entries[other].terminal for other in behind)

    def sample(self, batch_size: int) -> list[Transition] | None:
        """Return a batch, or None after a thousand draws in vain."""
        borders = np.cumsum(self.priorities)  # exact: all priorities are multiples of 1/64
        uniform = self.generator.random(batch_size)
        drawn = [self._at((position + uniform[position]) / batch_size, borders) for position in range(batch_size)]
        left = 1_000
        for position in range(batch_size):
            while not self.valid(drawn[position]):
                if not left:
                    return None
                left -= 1
                drawn[position] = self._at(self.generator.random(), borders)
        return [self._transition(index) for index in drawn]

    def update_priorities(self, indices: Sequence[int], priorities: Sequence[float]) -> None:
        for index, priority in zip(indices, priorities, strict=True):
            self.priorities[index] = priority
            self.largest = max(self.largest, priority)

    def _keep(self, entry: Entry, priority: float) -> None:
        self.priorities[len(self.entries) % self.capacity] = priority
        self.entries.append(entry)

    def _at(self, fraction: float, borders: NDArray[np.float64]) -> int:
        return int(np.searchsorted(borders, fraction * borders[-1], side="right"))

    def _transition(self, index: int) -> Transition:
        number = self.number(index)
        value, terminal, steps = 0.0, False, 0
        for step in range(self.steps):
            entry = self.entries[number + step]
            if entry.last_frame:
                break
            steps += 1
            reward = entry.extrinsic + self.bonus.scale * entry.intrinsic
            value += 0.99**step * (min(1.0, max(-1.0, reward)) if self.bonus.clip_sum else reward)
            if entry.terminal:
                terminal = True
                break
        last = number + (0 if terminal else steps)  # what follows an end is not of the episode
        frames = [entry.frame for entry in self.entries[number - self.stack + 1 : last + 1]]
        action = self.entries[number].action
        return Transition(index, self.priorities[index], frames, action, value, terminal, steps)


class ReplayBesideAList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(frames_module, "DICTIONARY_CHUNKS", 3)
        self.saved: dict[str, bytes] = {}

    @initialize(
        capacity=st.one_of(st.integers(13, 40), st.sampled_from([56, 64])),
        stack=st.integers(1, 4),
        steps=st.integers(1, 5),
        clip_sum=st.booleans(),
        seed=SEEDS,
    )
    def begin(self, capacity: int, stack: int, steps: int, clip_sum: bool, seed: int) -> None:
        bonus = BonusConfig(scale=0.5, clip_sum=clip_sum)
        self.make: Callable[[], Replay] = lambda: new_replay(capacity, stack, steps, stream(seed, "replay"))
        self.replay = self.make()
        self.naive = NaiveReplay(capacity, stack, steps, bonus, stream(seed, "replay"))

    @rule(length=st.integers(1, 30), ends=st.booleans(), seed=SEEDS)
    def play(self, length: int, ends: bool, seed: int) -> None:
        generator = np.random.default_rng(seed)
        for step in range(length):
            entry = Entry(
                frame=generator.integers(0, 256, SHAPE, dtype=np.uint8),
                action=int(generator.integers(18)),
                extrinsic=float(generator.choice([-1.0, 0.0, 0.25, 1.0])),
                intrinsic=float(generator.choice([0.0, 0.5, 5.0])),
                terminal=ends and step == length - 1,
            )
            self.replay.add(*entry[:5])
            self.naive.add(entry)

    @rule(episodes=st.integers(1, 12), seed=SEEDS)
    def play_episodes_of_one_or_two_steps(self, episodes: int, seed: int) -> None:
        for length in np.random.default_rng(seed).integers(1, 3, episodes):
            self.play(int(length), True, seed)

    @rule(length=st.integers(1, 6), seed=SEEDS)
    def play_to_a_limit(self, length: int, seed: int) -> None:
        self.play(length, False, seed)
        frame = np.random.default_rng(seed).integers(0, 256, SHAPE, dtype=np.uint8)
        self.replay.cut(frame)
        self.naive.cut(frame)

    @rule(batch_size=st.integers(1, 9), learns=st.booleans(), seed=SEEDS)
    def sample(self, batch_size: int, learns: bool, seed: int) -> None:
        expected = self.naive.sample(batch_size) if self.naive.entries else None
        if expected is None:
            if self.naive.entries:
                with pytest.raises(ConfigError, match=r"raise agent\.replay_capacity"):
                    self.replay.sample(batch_size)
            return
        batch = self.replay.sample(batch_size)
        self.compare(batch, expected)
        if learns:
            priorities = np.random.default_rng(seed).integers(1, 257, batch_size) / 64.0
            self.replay.update_priorities(batch.indices, priorities)
            self.naive.update_priorities([item.entry for item in expected], priorities.tolist())

    @rule(resumes=st.booleans())
    def save(self, resumes: bool) -> None:
        """Pack new immutable objects only, as checkpoints do; perhaps continue in a restored replay."""
        immutable = self.replay.immutable()
        self.saved = {name: self.saved.get(name) or pack() for name, pack in immutable.items()}
        state = arrays.pack(self.replay.state())
        if resumes:
            generator = generator_state(self.replay._generator)
            self.replay = self.make()
            newest_first = dict(reversed(self.saved.items()))  # the order of objects does not matter
            self.replay.load_state(arrays.unpack(state), newest_first)
            restore_generator(self.replay._generator, generator)
        self.compare_all_entries()

    @invariant()
    def same_bookkeeping(self) -> None:
        if not hasattr(self, "replay"):
            return
        assert self.replay.added == len(self.naive.entries)
        assert leaves(self.replay) == self.naive.priorities
        assert self.replay._tree.largest_recorded == self.naive.largest
        expected = [index for index in range(self.naive.capacity) if self.naive.valid(index)]
        assert valid_indices(self.replay) == expected
        assert generator_state(self.replay._generator) == generator_state(self.naive.generator)

    def compare(self, batch: Batch, expected: list[Transition]) -> None:
        stack = self.naive.stack
        assert batch.indices.tolist() == [item.entry for item in expected]
        assert batch.priorities.tolist() == [item.priority for item in expected]
        assert batch.numbers.tolist() == [self.naive.number(item.entry) for item in expected]
        assert batch.actions[:, 0].tolist() == [item.action for item in expected]
        assert batch.terminal.tolist() == [item.terminal for item in expected]
        for row, number in enumerate(batch.numbers):
            steps = int(batch.steps[row])
            entries = self.naive.entries[number : number + steps]
            assert steps == expected[row].steps
            assert [entry.terminal for entry in entries[:-1]] == [False] * (steps - 1)
            assert batch.actions[row, :steps].tolist() == [entry.action for entry in entries]
            nothing = [0.0] * (self.naive.steps - steps)
            assert batch.extrinsic[row].tolist() == [entry.extrinsic for entry in entries] + nothing
            assert batch.intrinsic[row].tolist() == [entry.intrinsic for entry in entries] + nothing
        returns = returns_of(batch, self.naive.bonus)
        np.testing.assert_allclose(returns, [item.value for item in expected], rtol=1e-5, atol=1e-6)
        assert batch.frames.shape == (len(expected), stack + self.naive.steps, *SHAPE)
        for row, item in enumerate(expected):
            assert len(item.frames) == (stack if item.terminal else stack + item.steps)
            np.testing.assert_array_equal(batch.frames[row, : len(item.frames)], item.frames)
            np.testing.assert_array_equal(batch.states[row], item.frames[:stack])
            if not item.terminal:
                np.testing.assert_array_equal(batch.next_states[row], item.frames[-stack:])

    def compare_all_entries(self) -> None:
        decoded = self.replay.decoded()
        numbers = list(range(max(0, len(self.naive.entries) - self.naive.capacity), len(self.naive.entries)))
        kept = [self.naive.entries[number] for number in numbers]
        assert decoded["numbers"].tolist() == numbers
        assert decoded["actions"].tolist() == [entry.action for entry in kept]
        assert decoded["extrinsic"].tolist() == [entry.extrinsic for entry in kept]
        assert decoded["intrinsic"].tolist() == [entry.intrinsic for entry in kept]
        assert decoded["terminal"].tolist() == [entry.terminal for entry in kept]
        assert decoded["last_frame"].tolist() == [entry.last_frame for entry in kept]
        priorities = [self.naive.priorities[number % self.naive.capacity] for number in numbers]
        assert decoded["priorities"].tolist() == priorities
        if numbers:
            frames = self.replay.frames_of(decoded["numbers"])
            np.testing.assert_array_equal(frames, [entry.frame for entry in kept])

    def teardown(self) -> None:
        self.patch.undo()


TestReplayBesideAList = ReplayBesideAList.TestCase
TestReplayBesideAList.settings = settings(max_examples=40, stateful_step_count=25)


def new_replay(
    capacity: int,
    stack: int = 4,
    steps: int = 3,
    generator: np.random.Generator | None = None,
) -> Replay:
    agent = AgentConfig(replay_capacity=capacity, return_steps=steps)
    return Replay(agent, (stack, *SHAPE), generator or stream(0, "replay"), bootstrap_at_limit=True)


def play(
    replay: Replay, rewards: Sequence[float], intrinsic: Sequence[float] | None = None, ends: bool = True
) -> NDArray[np.uint8]:
    """Add one step per reward, with actions 1, 2, 3 and so on, and return their frames."""
    frames = np.random.default_rng(replay.added).integers(1, 256, (len(rewards), *SHAPE), dtype=np.uint8)
    for step, (e, i) in enumerate(zip(rewards, intrinsic or [0.0] * len(rewards), strict=True)):
        replay.add(frames[step], 1 + step % 17, e, i, ends and step == len(rewards) - 1)
    return frames


def sample_at(replay: Replay, index: int) -> Batch:
    """Sample the entry at an index by leaving it the only one with a priority."""
    priorities = np.zeros(len(replay.actions))
    priorities[index] = 1.0
    replay.update_priorities(np.arange(len(priorities)), priorities)
    batch = replay.sample(1)
    assert batch.indices.tolist() == [index]
    return batch


def returns_of(batch: Batch, bonus: BonusConfig | None = None) -> NDArray[np.float32]:
    config = bonus or BonusConfig()
    [(returns, _)] = targets(batch, config, 0.99, config.scale)
    return returns


def leaves(replay: Replay) -> list[float]:
    values: list[float] = replay._tree.leaves.tolist()
    return values


def valid_indices(replay: Replay) -> list[int]:
    return np.flatnonzero(replay.valid(np.arange(len(replay.actions)))).tolist()

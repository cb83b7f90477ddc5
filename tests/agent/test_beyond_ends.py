"""Returns that continue over the ends of episodes: cases worked out by hand, and every entry beside a plain list."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from offpiste.agent.mixing import targets
from offpiste.agent.replay import Replay
from offpiste.config import AgentConfig, BonusConfig
from offpiste.errors import ConfigError
from offpiste.seeding import stream
from offpiste.types import Beyond

SHAPE = (2, 3)
ENDLESS = BonusConfig(name="stub", heads=2, clip_sum=False, discount=0.5, ends_with_episode=False)


class Entry(NamedTuple):
    kind: str
    """blank, step or last (the frame at a limit)."""
    frame: NDArray[np.uint8]
    intrinsic: float = 0.0


def new_replay(capacity: int, stack: int, steps: int, *, beyond_ends: bool = True) -> Replay:
    agent = AgentConfig(replay_capacity=capacity, return_steps=steps, min_history_steps=stack + steps + 1)
    draws = stream(0, "replay")
    return Replay(agent, (stack, *SHAPE), draws, bootstrap_at_limit=True, beyond_ends=beyond_ends)


def play(replay: Replay, intrinsic: list[float], end: str, stack: int = 2) -> list[Entry]:
    """Add an episode and return its entries; it ends in a terminal step, at a limit ("cut"), or not yet ("open")."""
    added = [Entry("blank", np.zeros(SHAPE, np.uint8))] * (stack - 1)
    for step, paid in enumerate(intrinsic):
        frame = np.full(SHAPE, 1 + (replay.added + step) % 255, np.uint8)
        replay.add(frame, 0, 1.0, paid, end == "terminal" and step == len(intrinsic) - 1)
        added.append(Entry("step", frame, paid))
    if end == "cut":
        last = np.full(SHAPE, 1 + replay.added % 255, np.uint8)
        replay.cut(last)
        added.append(Entry("last", last))
    return added


def sample_at(replay: Replay, index: int) -> tuple[Beyond, tuple[float, float, float, float]]:
    """Sample an entry, and return its steps and returns and bootstraps: extrinsic, then intrinsic."""
    priorities = np.zeros(len(replay.actions))
    priorities[index] = 1.0
    replay.update_priorities(np.arange(len(priorities)), priorities)
    batch = replay.sample(1)
    assert batch.indices.tolist() == [index]
    assert batch.beyond is not None
    extrinsic, intrinsic = targets(batch, ENDLESS, 0.9, factor=1.0)
    return batch.beyond, tuple(float(each[0]) for head in (extrinsic, intrinsic) for each in head)  # type: ignore[return-value]


def test_the_end_of_a_game_ends_the_extrinsic_return_and_not_the_intrinsic_one() -> None:
    replay = new_replay(30, stack=2, steps=3)
    first = play(replay, [8.0, 4.0], "terminal")  # entries 1 and 2, after a blank one
    second = play(replay, [2.0, 1.0, 16.0, 0.0, 0.0], "open")  # entries 4 to 8
    beyond, found = sample_at(replay, 1)
    assert found == pytest.approx((1 + 0.9, 0.0, 8 + 4 / 2 + 2 / 4, 1 / 8))
    np.testing.assert_array_equal(beyond.next_states[0], [second[1].frame, second[2].frame])
    beyond, found = sample_at(replay, 2)
    assert found == pytest.approx((1.0, 0.0, 4 + 2 / 2 + 1 / 4, 1 / 8))
    np.testing.assert_array_equal(beyond.next_states[0], [second[2].frame, second[3].frame])
    beyond, found = sample_at(replay, 4)  # nothing ends: both returns bootstrap from one state
    assert found == pytest.approx((1 + 0.9 + 0.81, 0.729, 2 + 1 / 2 + 16 / 4, 1 / 8))
    np.testing.assert_array_equal(beyond.next_states[0], [second[3].frame, second[4].frame])
    assert len(first) == 3


def test_the_first_state_of_the_next_episode_has_its_blank_frames() -> None:
    replay = new_replay(30, stack=3, steps=1)
    play(replay, [8.0], "terminal", stack=3)  # entry 2
    second = play(replay, [2.0, 1.0, 0.0], "open", stack=3)
    beyond, found = sample_at(replay, 2)
    assert found == pytest.approx((1.0, 0.0, 8.0, 0.5))
    blank = np.zeros(SHAPE, np.uint8)
    np.testing.assert_array_equal(beyond.next_states[0], [blank, blank, second[2].frame])


def test_at_a_limit_both_returns_bootstrap_from_the_state_that_it_left() -> None:
    replay = new_replay(30, stack=2, steps=3)
    first = play(replay, [8.0, 4.0], "cut")
    play(replay, [2.0, 1.0, 16.0, 0.0, 0.0], "open")
    beyond, found = sample_at(replay, 1)
    assert found == pytest.approx((1 + 0.9, 0.81, 8 + 4 / 2, 1 / 4))
    np.testing.assert_array_equal(beyond.next_states[0], [first[2].frame, first[3].frame])


def test_an_end_counts_once_as_many_steps_of_the_next_episode_are_there() -> None:
    replay = new_replay(30, stack=4, steps=2)
    play(replay, [1.0, 1.0], "terminal", stack=4)  # entries 3 and 4
    play(replay, [1.0], "open", stack=4)  # entry 8
    assert np.flatnonzero(replay.valid(np.arange(9))).tolist() == [3]  # to bootstrap from entry 8
    assert np.flatnonzero(new_like(replay).valid(np.arange(9))).tolist() == [3, 4]
    replay.add(np.ones(SHAPE, np.uint8), 0, 0.0, 0.0, False)
    assert np.flatnonzero(replay.valid(np.arange(10))).tolist() == [3, 4]


def new_like(replay: Replay) -> Replay:
    """Return the same entries in a replay whose returns end with the episode."""
    other = new_replay(30, stack=4, steps=2, beyond_ends=False)
    play(other, [1.0, 1.0], "terminal", stack=4)
    play(other, [1.0], "open", stack=4)
    assert other.added == replay.added
    return other


@given(
    episodes=st.lists(st.tuples(st.integers(1, 9), st.sampled_from(["terminal", "cut"])), min_size=1, max_size=12),
    unfinished=st.integers(0, 8),
    stack=st.integers(1, 4),
    steps=st.integers(1, 5),
    capacity=st.integers(12, 60),
)
def test_every_entry_has_the_steps_that_walking_along_a_list_finds(
    episodes: list[tuple[int, str]], unfinished: int, stack: int, steps: int, capacity: int
) -> None:
    replay, ending = new_replay(capacity, stack, steps), new_replay(capacity, stack, steps, beyond_ends=False)
    paid = np.random.default_rng(0).integers(1, 100, 200).astype(float).tolist()
    entries: list[Entry] = []
    for length, end in [*episodes, *([(unfinished, "open")] if unfinished else [])]:
        rewards = [paid.pop() for _ in range(length)]
        entries += play(replay, rewards, end, stack)
        play(ending, rewards, end, stack)
    held = range(max(0, len(entries) - capacity), len(entries))
    usable = []
    for number in held:
        walked, bootstrap = walk(entries, number, steps)
        possible = ending.valid(np.array([number % capacity]))[0] and bootstrap is not None
        assert replay.valid(np.array([number % capacity]))[0] == possible
        if possible:
            usable.append((number, walked, bootstrap))
    if not usable:
        return
    batch = replay._batch(np.array([number % capacity for number, *_ in usable]), "agent")
    assert batch.beyond is not None
    _, intrinsic = targets(batch, replace(ENDLESS, discount=0.875), 0.9, factor=0.5)
    for row, (_, walked, bootstrap) in enumerate(usable):
        assert batch.beyond.steps[row] == len(walked)
        assert batch.beyond.intrinsic[row].tolist() == walked + [0.0] * (steps - len(walked))
        assert bootstrap is not None
        seen = [entry.frame for entry in entries[bootstrap - stack + 1 : bootstrap + 1]]
        np.testing.assert_array_equal(batch.beyond.next_states[row], seen)
        assert intrinsic.returns[row] == pytest.approx(sum(0.5 * x * 0.875**k for k, x in enumerate(walked)), rel=1e-5)
        assert intrinsic.bootstrap[row] == pytest.approx(0.875 ** len(walked))
        if not batch.terminal[row]:
            np.testing.assert_array_equal(batch.next_states[row], batch.beyond.next_states[row])


def walk(entries: list[Entry], number: int, steps: int) -> tuple[list[float], int | None]:
    """Return the rewards of the next steps from an entry on, and the entry to bootstrap from, or None without one."""
    found: list[float] = []
    for position in range(number, len(entries)):
        kind, _, paid = entries[position]
        if kind == "last" or (kind == "step" and len(found) == steps):
            return found, position
        if kind == "step":
            found.append(paid)
    return found, None


def test_one_head_cannot_have_a_return_that_goes_on() -> None:
    with pytest.raises(ConfigError, match=r"bonus\.ends_with_episode must be true with bonus\.heads = 1.*heads = 2"):
        BonusConfig(ends_with_episode=False)


def test_what_is_scored_when_sampled_is_the_state_and_not_the_next() -> None:
    with pytest.raises(ConfigError, match=r"bonus\.when must be entry with bonus\.pays_for = next_state"):
        BonusConfig(when="sample", pays_for="next_state")

import json
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpiste.seeding import generator_state, restore_generator, stream

SEEDS = st.integers(0, 2**63 - 1)


@pytest.mark.parametrize(
    ("seed", "name", "first"),
    [
        (0, "world", [85850, 568987, 348068, 877247]),
        (1, "world", [665538, 420045, 554164, 999458]),
        (0, "agent", [333888, 870146, 128779, 593386]),
    ],
)
def test_the_first_draws_never_change(seed: int, name: str, first: list[int]) -> None:
    assert stream(seed, name).integers(0, 1_000_000, 4).tolist() == first


@given(seed=SEEDS, name=st.text())
def test_the_same_seed_and_name_give_the_same_stream(seed: int, name: str) -> None:
    assert draws(stream(seed, name)) == draws(stream(seed, name))


@given(seed=SEEDS, names=st.lists(st.text(), min_size=2, max_size=2, unique=True))
def test_another_name_gives_another_stream(seed: int, names: list[str]) -> None:
    assert draws(stream(seed, names[0])) != draws(stream(seed, names[1]))


@given(name=st.text(), seeds=st.lists(SEEDS, min_size=2, max_size=2, unique=True))
def test_another_seed_gives_another_stream(name: str, seeds: list[int]) -> None:
    assert draws(stream(seeds[0], name)) != draws(stream(seeds[1], name))


def test_streams_of_neighbouring_seeds_are_not_correlated() -> None:
    table = np.stack([stream(seed, "x").standard_normal(2_000) for seed in range(20)])
    correlation = np.corrcoef(table) - np.eye(20)
    assert np.abs(correlation).max() < 0.1  # 4.5 standard deviations of independent streams


def test_one_stream_does_not_depend_on_how_far_another_was_drawn() -> None:
    alone = draws(stream(0, "x"))
    other, beside = stream(0, "other"), stream(0, "x")
    other.random(100)
    assert draws(beside) == alone


@given(seed=SEEDS, drawn=st.integers(0, 20))
def test_a_stream_continues_from_its_state_after_a_round_trip_through_json(seed: int, drawn: int) -> None:
    generator = stream(seed, "x")
    generator.random(drawn, dtype=np.float32)  # an odd number leaves half a word in the generator
    state = json.loads(json.dumps(generator_state(generator)))
    restored = stream(0, "y")
    restore_generator(restored, state)
    expected = generator.random(3, dtype=np.float32).tolist() + draws(generator)
    assert restored.random(3, dtype=np.float32).tolist() + draws(restored) == expected


def test_a_state_that_was_taken_does_not_move_with_its_generator() -> None:
    generator = stream(0, "x")
    state = generator_state(generator)
    expected = draws(generator)
    restore_generator(generator, state)
    assert draws(generator) == expected


def test_no_global_generator_is_touched() -> None:
    python_before, numpy_before = random.getstate(), np.random.get_state()  # noqa: NPY002
    generator = stream(0, "x")
    generator.random(10)
    restore_generator(generator, generator_state(stream(1, "x")))
    assert random.getstate() == python_before
    np.testing.assert_equal(np.random.get_state(), numpy_before)  # noqa: NPY002


def draws(generator: np.random.Generator) -> list[int]:
    numbers: list[int] = generator.integers(0, 2**62, 4).tolist()
    return numbers

"""Learned bonuses saved in the middle of an episode, of which some keep something, between batches, and restored."""

import pytest

from offpiste import arrays
from offpiste.bonuses.base import Context
from offpiste.bonuses.contract.play import ROOMS, context_of
from offpiste.bonuses.registry import build
from offpiste.methods import BY_RULE, METHODS
from offpiste.seeding import generator_state, stream
from tests.bonuses.played import MID_EPISODE, PLAYED, batch, made, paid
from tests.sameness import assert_same, global_generators

pytestmark = pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")  # as in a run
NAMES = [name for name, row in METHODS.items() if row.source == BY_RULE and name not in ("drnd", "cfn")]
"""These two draw while they pay or learn, and are restored with their streams in tests of their own."""
each = pytest.mark.parametrize("name", NAMES)


def test_the_bonuses_are_saved_within_an_episode() -> None:
    assert 0 < PLAYED[MID_EPISODE].episode_step < 24
    assert not PLAYED[MID_EPISODE - 1].over


@each
def test_a_restored_bonus_continues_bit_by_bit(name: str) -> None:
    bonus, other = made(name), made(name, seed=1)
    paid(bonus, 0, MID_EPISODE)
    paid(other, 0, 60)
    other.load_state(arrays.unpack(arrays.pack(bonus.state())))
    until = MID_EPISODE + 60
    assert paid(bonus, MID_EPISODE, until) == paid(other, MID_EPISODE, until)
    assert_same(bonus.state(), other.state())
    assert bonus.scalars() == other.scalars()


@each
def test_a_bonus_restored_to_before_its_first_step_is_as_new(name: str) -> None:
    fresh, used = made(name), made(name, seed=1)
    paid(used, 0, MID_EPISODE)
    used.load_state(arrays.unpack(arrays.pack(fresh.state())))
    assert paid(used, 0, 60) == paid(fresh, 0, 60)
    assert used.scalars() == fresh.scalars()


@each
def test_a_saved_state_does_not_move_with_the_bonus_nor_the_bonus_with_it(name: str) -> None:
    bonus, other = made(name), made(name)
    paid(bonus, 0, MID_EPISODE)
    saved = bonus.state()
    kept = arrays.unpack(arrays.pack(saved))
    other.load_state(saved)
    for each in (bonus, other):
        paid(each, MID_EPISODE, MID_EPISODE + 40)
        assert_same(saved, kept)


@each
def test_the_same_seed_pays_the_same_and_another_seed_does_not(name: str) -> None:
    found = [paid(made(name, seed), 0, 60) for seed in (0, 0, 1)]
    assert found[0] == found[1]
    assert found[0] != found[2]


@each
def test_neither_observing_nor_learning_draws_from_a_generator(name: str) -> None:
    generator = stream(0, "bonus")
    context: Context = context_of(ROOMS, generator)
    bonus = build(METHODS[name].bonus_on(ROOMS), context)
    assert bonus is not None
    before = (*global_generators(), generator_state(generator))
    bonus.observe(PLAYED[0])
    if hasattr(bonus, "learn"):
        bonus.learn(batch(8))
    assert (*global_generators(), generator_state(generator)) == before

"""True counts: over the run, within the episode, and the product of both."""

from dataclasses import replace
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest

from offpiste import arrays
from offpiste.bonuses.base import Context, Transition
from offpiste.bonuses.registry import build
from offpiste.config import BonusConfig
from offpiste.errors import ConfigError
from offpiste.methods import base_run
from offpiste.run.coverage import Coverage
from offpiste.seeding import stream
from offpiste.worlds.play import play, random_policy
from offpiste.worlds.registry import WORLDS, open_world
from offpiste.worlds.small import deep_sea

ORACLES = ("oracle", "oracle_episodic", "oracle_product", "oracle_left")
GAME = "deep_sea_5"


def made(name: str, game: str = GAME) -> Any:
    return build(BonusConfig(name=name), Context(game, 2, 1, (84, 84), stream(0, "bonus")))


def entering(column: int, *, terminated: bool = False, truncated: bool = False) -> Transition:
    ram = np.zeros(128, np.uint8)
    ram[deep_sea.LOCATION.x] = 8 * column
    state = np.zeros((1, 84, 84), np.uint8)
    return Transition(state, 0, 0.0, state, terminated, truncated, 0, ram)


def random_steps(steps: int) -> list[Transition]:
    world = open_world(GAME, base_run(GAME).world, stream(0, "game"), 0)
    return list(islice(play(world, random_policy(world, stream(0, "actions"))), steps))


A, B = entering(1), entering(2)
A_TERMINATED, A_TRUNCATED = entering(1, terminated=True), entering(1, truncated=True)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("oracle", [1, 2**-0.5, 1, 3**-0.5, 4**-0.5, 2**-0.5, 5**-0.5, 6**-0.5]),
        ("oracle_episodic", [1, 2**-0.5, 1, 3**-0.5, 1, 1, 2**-0.5, 1]),
        ("oracle_product", [1, 1 / 2, 1, 1 / 3, 4**-0.5, 2**-0.5, 10**-0.5, 6**-0.5]),
    ],
)
def test_a_visit_counts_over_the_run_in_the_episode_or_in_both(name: str, expected: list[float]) -> None:
    bonus = made(name)
    steps = [A, A, B, A_TERMINATED, A, B, A_TRUNCATED, A]  # three episodes: AABA, ABA and A
    assert [bonus.observe(step) for step in steps] == pytest.approx(expected)


def test_the_oracle_counts_the_visits_of_the_records_but_for_the_starts_of_episodes() -> None:
    bonus, coverage, steps = made("oracle"), Coverage(deep_sea.LOCATION), random_steps(200)
    for number, step in enumerate(steps):
        bonus.observe(step)
        coverage.visit(step.ram, step.next_state[-1], number)
    expected = coverage.cells()  # a run counts the starts too
    counts = dict(zip(*bonus.state().values(), strict=True))
    assert counts == dict(zip(expected["cell"], expected["visits"], strict=True))
    assert 0 not in counts  # the cell at the top left, to which no action leads


def test_what_is_left_is_paid_for_one_step_after_it_was_entered_and_the_start_is_a_cell() -> None:
    entered = [replace(step, episode_step=index) for index, step in enumerate((A, B, A, A_TERMINATED))]
    bonus = made("oracle_left")
    # Left: the start, A, B, A; then again the start, A, and A once more
    assert [bonus.observe(step) for step in entered] == pytest.approx([1, 1, 1, 2**-0.5])
    assert [
        bonus.observe(step) for step in (A, replace(A, episode_step=1), replace(B, episode_step=2))
    ] == pytest.approx([2**-0.5, 3**-0.5, 4**-0.5])


def test_within_an_episode_leaving_pays_what_entering_paid_a_step_before() -> None:
    left, entered = made("oracle_left"), made("oracle")
    paid = [(left.observe(step), entered.observe(step), step) for step in random_steps(200)]
    starts = 0
    for (_, before, _), (after, _, step) in pairwise(paid):
        if step.episode_step == 0:
            starts += 1
            assert after == pytest.approx((starts + 1) ** -0.5)
        else:
            assert after == before or step.over  # the floor is entered once more by the step that ends the episode
    assert starts > 20


def test_the_product_is_that_of_the_other_two_at_every_step() -> None:
    lifelong, episodic, product = map(made, ORACLES[:3])
    for step in random_steps(200):
        assert product.observe(step) == lifelong.observe(step) * episodic.observe(step)


@pytest.mark.parametrize("name", ORACLES)
def test_an_oracle_restored_within_an_episode_pays_as_if_it_had_not_been(name: str) -> None:
    steps = random_steps(100)
    bonus, other = made(name), made(name)
    for step in steps[:40]:
        bonus.observe(step)
    assert not steps[39].over
    other.load_state(arrays.unpack(arrays.pack(bonus.state())))
    assert [bonus.observe(step) for step in steps[40:]] == [other.observe(step) for step in steps[40:]]


@pytest.mark.parametrize("name", ORACLES)
def test_an_oracle_is_made_wherever_the_location_is_known_and_says_where_that_is(name: str) -> None:
    for game, row in WORLDS.items():
        if row.location is not None:
            assert made(name, game.replace("N", "7")) is not None
    with pytest.raises(
        ConfigError,
        match=r"whose RAM locates the player, got asterix; choose one of montezuma_revenge, .*deep_sea_N, .*or add",
    ):
        made(name, "asterix")


def test_what_is_not_in_the_location_does_not_count() -> None:
    bonus = made("oracle")
    bonus.observe(A)
    other_frame = np.full_like(A.state, 7)
    other_ram = A.ram.copy()
    other_ram[100] = 3
    assert bonus.observe(replace(A, state=other_frame, ram=other_ram, action=1)) == pytest.approx(2**-0.5)

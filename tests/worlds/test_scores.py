"""Where the scale of a game begins and ends, typed in or computed."""

import subprocess
import sys

import pytest

from offpiste.worlds import registry
from offpiste.worlds.games import Game, Returns
from offpiste.worlds.scores import ReferenceScores, reference_scores

asked: list[str] = []


def made_up_scores(game: str) -> Returns:
    asked.append(game)
    return Returns(0.25, 2.25)


def test_a_score_lies_a_share_of_the_way_from_random_to_human_play() -> None:
    pitfall = reference_scores("pitfall")
    assert (pitfall.random, pitfall.top, pitfall.player, pitfall.label) == (-229.4, 6463.7, "a human", "human")
    assert pitfall.span == pytest.approx(6463.7 + 229.4)
    assert [pitfall.score_at(share) for share in (0.0, 1.0)] == pytest.approx([-229.4, 6463.7])
    assert pitfall.score_at(0.5) == pytest.approx(3117.15)


def test_a_world_computes_its_scores_once_for_each_name_and_its_top_is_the_best_policy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = Game("toy_pond_N", computed_scores=made_up_scores, sizes=range(2, 5))
    monkeypatch.setitem(registry.WORLDS, "toy_pond_N", row)
    asked.clear()
    for _ in range(2):
        found = reference_scores("toy_pond_3")
        assert (found.random, found.top, found.player, found.label) == (0.25, 2.25, "the best policy", "best policy")
    assert asked == ["toy_pond_3"]
    assert found.score_at(0.5) == 1.25
    reference_scores("toy_pond_4")
    assert asked == ["toy_pond_3", "toy_pond_4"]


def test_a_game_without_reference_scores_has_the_scale_of_points() -> None:
    pong = reference_scores("pong")
    assert pong == ReferenceScores()
    assert not pong.known
    assert (pong.score_at(-21.0), pong.span) == (-21.0, 1.0)


def test_no_scores_are_computed_at_import() -> None:
    program = (
        "import sys\n"
        "called = set()\n"
        "sys.setprofile(lambda frame, *_: called.add(frame.f_code.co_name))\n"
        "import offpiste.worlds.scores, offpiste.worlds.registry, offpiste.methods\n"
        "sys.setprofile(None)\n"
        "assert '_settings' in called and 'mean_returns' not in called, called\n"  # it saw the rows being made
    )
    subprocess.run([sys.executable, "-c", program], check=True)

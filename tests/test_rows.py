"""A method is one row and a world is one row: all that lists, plans, prices and draws them follows."""

import re
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from offpiste.analysis import names
from offpiste.analysis.scores import threshold_of
from offpiste.bonuses import registry as bonuses
from offpiste.cli import main
from offpiste.config import BonusConfig, WorldConfig
from offpiste.methods import METHODS, Method, base_run
from offpiste.report import look, tables
from offpiste.store.storage import Folder
from offpiste.study.cost import cost
from offpiste.study.plan import load_bonuses, make_study
from offpiste.worlds import registry
from offpiste.worlds.games import Game, Location
from offpiste.worlds.small import deep_sea
from tests.analysis.small_study import evidence_of, write_study
from tests.bonuses.broken import Good
from tests.worlds.test_scores import made_up_scores


def open_toy_pond(game: str, config: WorldConfig, generator: np.random.Generator, seed: int) -> deep_sea.DeepSea:
    assert game == "toy_pond"
    assert isinstance(generator, np.random.Generator)
    return deep_sea.DeepSea(3, config)


TOY_METHOD = Method(
    "Toy Count",
    constants={
        "atari": BonusConfig(name="toy_count", options={"noise": 0.5}, scale=0.25),
        "pond": BonusConfig(name="toy_count", options={"noise": 0.0}, scale=4.0),
    },
    source="this test",
    bonus_class="tests.bonuses.broken:Good",
    checkpoint_mb={"atari": 50.0},
)
TOY_WORLD = Game(
    "toy_pond",
    random_score=-1.0,
    human_score=19.0,
    location=Location(x=0, y=1),
    title="Toy’s Pond",
    opener=open_toy_pond,
    settings=deep_sea.SETTINGS | {"schedule": {"iteration_steps": 40}},
    constants="pond",
)


@pytest.fixture(autouse=True)
def two_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that these tests add: one row for each table."""
    monkeypatch.setitem(METHODS, "toy_count", TOY_METHOD)
    monkeypatch.setitem(registry.WORLDS, "toy_pond", TOY_WORLD)


def lines_of(capsys: pytest.CaptureFixture[str], *argv: str) -> list[list[str]]:
    assert main(list(argv)) == 0
    return [re.split(r" {2,}", line) for line in capsys.readouterr().out.splitlines()]


def test_a_row_puts_a_bonus_among_the_methods(capsys: pytest.CaptureFixture[str]) -> None:
    row = ["toy_count", "0.25", "noise 0.5", "clipped to ±1", "this test"]
    assert row in lines_of(capsys, "methods")
    assert ["", "bonus", "tests.bonuses.broken:Good"] in lines_of(capsys, "methods", "toy_count")
    assert bonuses.find("toy_count") is Good
    assert bonuses.source_digest("toy_count") is None  # built in, so RESULTS_VERSION covers its source


def test_a_row_puts_a_world_among_the_games(capsys: pytest.CaptureFixture[str]) -> None:
    listed = lines_of(capsys, "games")
    assert [re.sub(" +", " ", " ".join(row)) for row in listed][-1] == "toy_pond – −1.0 19.0 x, y"
    world = registry.open_world("toy_pond", WorldConfig(**TOY_WORLD.settings["world"]), np.random.default_rng(0), 0)
    state: NDArray[np.uint8] = world.reset()[0]
    assert state.shape == world.state_shape == (1, 84, 84)
    assert registry.location("toy_pond") == TOY_WORLD.location
    assert main(["train", "--game", "toy_pnod", "--print-config"]) == 1
    assert "no game named 'toy_pnod'; did you mean 'toy_pond'?" in capsys.readouterr().err


def test_a_row_with_computed_scores_is_listed_with_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Game("catch", "small_easy", computed_scores=made_up_scores)
    monkeypatch.setitem(registry.WORLDS, "catch", row)
    listed = [re.sub(" +", " ", " ".join(row)) for row in lines_of(capsys, "games")]
    assert "catch small_easy 0.25 2.25 coarse frame" in listed


def test_a_plan_has_the_constants_of_a_method_for_the_world_of_each_run() -> None:
    content = {"games": ["freeway", "toy_pond", "deep_sea_5"], "methods": ["toy_count"], "seeds": [0], "frames": 400}
    study = load_bonuses(make_study("toy", content))
    assert [run.bonus.scale for run in study.runs] == [0.25, 4.0, 0.25]  # Deep Sea has none of its own: as on Atari
    assert [run.schedule.iteration_steps for run in study.runs] == [250_000, 40, 1_000]
    assert base_run("toy_pond", "noisy_nets", "toy_count").bonus == TOY_METHOD.constants["pond"]


def test_a_plan_prices_a_bonus_by_its_row() -> None:
    toy, plain = (cost(base_run("freeway", method), "results") for method in ("toy_count", "epsilon_greedy"))
    assert toy.memory_gb - plain.memory_gb == pytest.approx(2 * 0.050)


def test_a_report_calls_and_orders_them_by_their_rows() -> None:
    assert names.label("toy_count") == "Toy Count"
    assert names.title("toy_pond") == "Toy’s Pond"
    assert names.ordered_methods(["another", "toy_count", "rnd_released", "cts"]) == [
        "cts",
        "rnd_released",
        "toy_count",
        "another",
    ]
    games = ["alien", "toy_pond", "deep_sea_5", "hero"]
    assert names.ordered_games(games) == ["hero", "deep_sea_5", "toy_pond", "alien"]


def test_a_method_without_colours_of_its_own_is_drawn_as_those_of_others_are_with_its_label() -> None:
    drawn = look.looks([*METHODS, "another"])
    assert drawn["toy_count"].label == "Toy Count"
    assert len({(each.colour, each.dashes, each.marker) for each in drawn.values()}) == len(METHODS) + 1
    own = drawn.pop("toy_count")
    assert (own.colour, own.marker) not in {(each.colour, each.marker) for each in drawn.values()}


def test_a_report_compares_scores_with_those_of_random_and_human_play_in_the_row(tmp_path: Path) -> None:
    store = Folder(tmp_path)
    write_study(store, {("toy_pond", "toy_count"): [4.0], ("deep_sea_5", "toy_count"): [0.5]})
    evidence = evidence_of(store)
    assert evidence.normalised("toy_pond", "toy_count").tolist() == [0.25]  # of the way from -1 to 19
    assert threshold_of("toy_pond") == 1.0
    shown = {game: tables.game_table(evidence, game) for game in ("toy_pond", "deep_sea_5")}
    known = {
        game: dict(zip(table.columns, table.rows[0], strict=True)).get("normalised") for game, table in shown.items()
    }
    assert known == {"toy_pond": 0.25, "deep_sea_5": None}
    assert tables.score_table(evidence).rows[-1][:3] == ("Toy’s Pond", -1.0, 19.0)

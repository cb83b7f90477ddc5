"""The file of a study describes its runs; an invalid one is refused with a hint."""

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import pytest

from offpiste.config import RunConfig, fingerprint, method_settings
from offpiste.errors import ConfigError
from offpiste.methods import base_run
from offpiste.parsing import to_toml
from offpiste.study.plan import Arm, Study, load_bonuses, make_study, points_of, read_study, shown
from offpiste.worlds.games import GAMES

STUDIES = Path(__file__).parents[2] / "studies"
SMALL: dict[str, Any] = {"games": ["freeway"], "methods": ["epsilon_greedy"], "seeds": [0], "frames": "1k"}


def ids(**content: Any) -> list[str]:
    return [run.run_id for run in make_study("small", SMALL | content).runs]


@pytest.fixture(scope="module")
def tuning() -> Study:
    return read_study(STUDIES / "tuning.toml")


def test_a_method_may_have_games_of_its_own() -> None:
    own = {"name": "rnd", "games": ["hero", "freeway"]}
    assert ids(methods=["cts", own]) == ["freeway/cts/seed-0", "freeway/rnd/seed-0", "hero/rnd/seed-0"]
    assert ids(games=[], methods=[own]) == ["hero/rnd/seed-0", "freeway/rnd/seed-0"]
    assert len(ids(games=[], methods=[{"name": "rnd", "games": ["small_easy"]}])) == 3
    with pytest.raises(ConfigError, match=r"games of the study 'small' must be a list of at least one, got \[\]"):
        ids(games=[], methods=["cts", own])
    with pytest.raises(ConfigError, match="must differ, got hero/rnd/seed-0 twice"):
        ids(methods=[{"name": "rnd", "games": ["hero", "hero"]}])
    with pytest.raises(ConfigError, match="no game named 'hreo'; did you mean 'hero'"):
        ids(methods=[{"name": "rnd", "games": ["hreo"]}])


# The studies that come with the project


def test_the_paper_is_360_runs_and_72_billion_frames() -> None:
    study = read_study(STUDIES / "paper.toml")
    assert len(study.runs) == len({run.run_id for run in study.runs}) == 360
    assert sum(run.frames for run in study.runs) == 72 * 10**9
    assert {run.game for run in study.runs} == set(GAMES)
    assert study.keep == "results"
    for run in study.runs:
        expected = base_run(run.game, run.method)
        assert run == dataclasses.replace(expected, seed=run.seed)


def test_the_first_million_is_the_paper_with_fewer_frames_and_can_be_resumed() -> None:
    paper, short = read_study(STUDIES / "paper.toml"), read_study(STUDIES / "first_million.toml")
    assert [dataclasses.replace(run, frames=10**6) for run in paper.runs] == list(short.runs)
    assert short.keep == "all"


def test_released_rnd_is_60_runs_that_differ_from_the_papers_in_the_method_alone() -> None:
    paper, released = read_study(STUDIES / "paper.toml"), read_study(STUDIES / "rnd_released.toml")
    assert len(released.runs) == 60
    theirs = {(run.game, run.seed): run for run in paper.runs if run.method == "rnd"}
    method = base_run("freeway", "rnd_released")
    own: dict[str, Any] = {"method": "rnd_released", "exploration": method.exploration, "bonus": method.bonus}
    for run in released.runs:
        assert run == dataclasses.replace(theirs.pop((run.game, run.seed)), **own)
    assert not theirs
    assert (released.keep, released.resources) == (paper.keep, paper.resources)


def test_tuning_is_660_runs_and_132_billion_frames(tuning: Study) -> None:
    assert len(tuning.runs) == len({run.run_id for run in tuning.runs}) == 660
    assert sum(run.frames for run in tuning.runs) == 132 * 10**9
    assert {arm.name: len(points_of(arm)) for arm in tuning.arms} == {"cts": 8, "pixelcnn": 25, "icm": 54, "rnd": 45}


def test_tuning_and_paper_share_no_seed(tuning: Study) -> None:
    paper = read_study(STUDIES / "paper.toml")
    assert not {run.seed for run in paper.runs} & {run.seed for run in tuning.runs}


def test_every_method_of_the_paper_is_a_point_of_its_grid(tuning: Study) -> None:
    chosen = {
        "cts": {"beta": 5e-4},
        "pixelcnn": {"beta": 0.1, "c": 1},
        "icm": {"alpha": 0.005, "beta": 0.005},
        "rnd": {"beta": 1e-4, "lr": 2e-4},
    }
    for arm in tuning.arms:
        assert chosen[arm.name] in points_of(arm)
        wanted = fingerprint(method_settings(base_run("montezuma_revenge", arm.name)))
        same = [run for run in tuning.runs if run.method == arm.name and fingerprint(method_settings(run)) == wanted]
        assert {run.variant for run in same} == {
            ",".join(f"{name}={shown(value)}" for name, value in chosen[arm.name].items())
        }
        assert len(same) == 5


def test_the_beta_that_the_paper_prints_twice_is_read_as_a_tenth_of_it_once(tuning: Study) -> None:
    betas = {run.bonus.scale for run in tuning.runs if run.method == "rnd"}
    assert len(betas) == 9
    assert {5e-4, 5e-5} < betas
    assert any(run.run_id == "montezuma_revenge/rnd/beta=0.00005,lr=0.0002/seed-103" for run in tuning.runs)


@pytest.mark.parametrize("name", ["paper", "rnd_released", "tuning", "first_million", "smoke"])
def test_every_study_sets_only_options_that_its_bonuses_have(name: str) -> None:
    load_bonuses(read_study(STUDIES / f"{name}.toml"))


def test_a_study_has_the_hash_of_the_file_of_a_bonus_that_is_not_built_in() -> None:
    study = make_study("small", SMALL | {"methods": ["cts", {"bonus": "tests.bonuses.broken:Good"}]})
    digest = hashlib.sha256((STUDIES.parent / "tests/bonuses/broken.py").read_bytes()).hexdigest()
    assert load_bonuses(study).bonus_sources == {"cts": None, "tests.bonuses.broken:Good": digest}


def test_the_smoke_study_has_every_method_and_few_frames() -> None:
    study = read_study(STUDIES / "smoke.toml")
    assert {run.method for run in study.runs} == {run.method for run in read_study(STUDIES / "paper.toml").runs}
    assert sum(run.frames for run in study.runs) < 200_000


# Valid files


def test_runs_are_ordered_by_seed_so_that_every_method_starts_early() -> None:
    assert ids(games=["freeway", "hero"], methods=["epsilon_greedy", "rnd"], seeds=[3, 1]) == [
        "freeway/epsilon_greedy/seed-3",
        "freeway/rnd/seed-3",
        "hero/epsilon_greedy/seed-3",
        "hero/rnd/seed-3",
        "freeway/epsilon_greedy/seed-1",
        "freeway/rnd/seed-1",
        "hero/epsilon_greedy/seed-1",
        "hero/rnd/seed-1",
    ]


def test_a_suite_expands_to_its_games_and_any_game_may_be_listed() -> None:
    games = [run_id.split("/")[0] for run_id in ids(games=["montezuma", "pong", "deep_sea_6"])]
    assert games == ["montezuma_revenge", "pong", "deep_sea_6"]


def test_settings_of_an_arm_override_shared_ones_and_these_override_the_method() -> None:
    settings = {"agent": {"hidden_units": 64, "batch_size": 8}, "bonus": {"scale": 2}}
    arm = {"name": "pixelcnn", "settings": {"agent": {"batch_size": 16}, "bonus": {"options": {"gate": "product"}}}}
    (run,) = make_study("small", SMALL | {"methods": [arm], "settings": settings}).runs
    assert (run.agent.hidden_units, run.agent.batch_size, run.bonus.scale) == (64, 16, 2.0)
    assert run.bonus.options == {"decay": 1.0, "gate": "product"}
    assert run.variant == "batch_size=16,gate=product"
    assert (run.frames, run.seed) == (1_000, 0)


def test_the_variant_of_an_arm_is_its_name_or_else_its_settings() -> None:
    arms = [
        "rnd",
        {"name": "rnd", "variant": "clipped", "settings": {"bonus": {"clip_sum": True}}},
        {"name": "rnd", "settings": {"bonus": {"clip_sum": True, "scale": 1}}},
    ]
    assert ids(methods=arms) == [
        "freeway/rnd/seed-0",
        "freeway/rnd/clipped/seed-0",
        "freeway/rnd/clip_sum=true,scale=1/seed-0",
    ]


def test_a_grid_becomes_one_variant_per_combination() -> None:
    grid = {
        "beta": {"setting": "bonus.scale", "values": [1, 0.5]},
        "lr": {"setting": "bonus.options.learning_rate", "values": [1e-5, 0.25]},
    }
    study = make_study("small", SMALL | {"methods": [{"name": "rnd", "grid": grid}]})
    found = [(run.variant, run.bonus.scale, run.bonus.options["learning_rate"]) for run in study.runs]
    assert found == [
        ("beta=1,lr=0.00001", 1.0, 1e-5),
        ("beta=1,lr=0.25", 1.0, 0.25),
        ("beta=0.5,lr=0.00001", 0.5, 1e-5),
        ("beta=0.5,lr=0.25", 0.5, 0.25),
    ]
    assert points_of(Arm("rnd")) == [{}]


def test_an_integer_on_the_axis_of_a_float_setting_is_the_same_run() -> None:
    def run_of(value: float) -> RunConfig:
        grid = {"c": {"setting": "bonus.options.decay", "values": [value]}}
        return make_study("small", SMALL | {"methods": [{"name": "pixelcnn", "grid": grid}]}).runs[0]

    assert run_of(1) == run_of(1.0)
    assert to_toml(run_of(1)) == to_toml(run_of(1.0))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5e-05, "0.00005"),
        (0.1, "0.1"),
        (5.0, "5"),
        (5, "5"),
        (1e6, "1000000"),
        (0, "0"),
        (-0.5, "-0.5"),
        (True, "true"),
        ([16, 32], "16-32"),
        ("bf16", "bf16"),
    ],
)
def test_a_value_is_written_without_exponent_in_the_name_of_a_run(value: Any, text: str) -> None:
    assert shown(value) == text


# Invalid files


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"game": ["freeway"]}, "no setting named 'game'; did you mean 'games'?"),
        ({"resources": {"cpu": 1}}, "no setting named 'resources.cpu'; did you mean 'resources.cpus'?"),
        ({"games": []}, "games of the study 'small' must be a list of at least one, got []"),
        ({"seeds": []}, "seeds of the study 'small' must be a list of at least one, got []"),
        ({"seeds": [-1]}, "seeds[0] must be >= 0, got -1"),
        ({"seeds": [0, True]}, "seeds[1] must be an int, got True"),
        ({"seeds": ["one"]}, "seeds[0] must be a number, got 'one'"),
        ({"seeds": 1}, "seeds must be a list, got 1"),
        ({"games": ["freway"]}, "no game named 'freway'; did you mean 'freeway'?"),
        ({"games": ["trainig"]}, "no game or suite named 'trainig'; did you mean 'training'?"),
        ({"games": [1]}, "games[0] must be a string, got 1"),
        ({"methods": ["rdn"]}, "no method named 'rdn'; did you mean 'rnd'?"),
        ({"methods": [1]}, "a method of a study must be a name, or a table with a name or a bonus, got 1"),
        ({"methods": [{"grid": {}}]}, "a method of a study must be a name, or a table with a name"),
        ({"methods": [{"name": "rnd", "gird": {}}]}, "no setting named 'methods.gird'; did you mean 'methods.grid'?"),
        ({"keep": "some"}, "keep must be one of 'results', 'all', got 'some'"),
        ({"frames": "1x"}, "frames must be a number, got '1x'"),
        ({"settings": {"agnet": {}}}, "no setting named 'agnet'; did you mean 'agent'?"),
        ({"settings": {"agent": {"discout": 1}}}, "no setting named 'agent.discout'; did you mean 'agent.discount'?"),
        ({"settings": {"seed": 1}}, "settings cannot set 'seed'; set 'seeds' of the study"),
        (
            {"methods": [{"name": "rnd", "settings": {"frames": 1}}]},
            "the settings of rnd cannot set 'frames'; set 'frames' of the study",
        ),
        (
            {"seeds": [0, 1, 0]},
            "the runs of the study 'small' must differ, got freeway/epsilon_greedy/seed-0 twice; list each game, ",
        ),
        ({"games": ["hard", "freeway"]}, "must differ, got freeway/epsilon_greedy/seed-0 twice"),
        ({"resources": {"cpus": -1}}, "resources.cpus must be >= 0, got -1.0"),
        ({"resources": {"cpus": 0}}, "resources.cpus must be > 0 without a GPU, got 0"),
        ({"resources": {"gpus": 0.5}}, "machine.device is 'cpu' and resources.gpus is 0.5; set both for a GPU"),
        ({"settings": {"machine": {"device": "cuda"}}}, "machine.device is 'cuda' and resources.gpus is 0; set both"),
        ({"settings": {"machine": {"threads": 2}}}, "machine.threads must be <= resources.cpus, 1, got 2; raise"),
    ],
)
def test_an_invalid_file_is_refused(content: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make_study("small", SMALL | content)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"beta": 1}, "grid.beta must be a table with setting and values, got 1"),
        ({"beta": {"settings": "bonus.scale", "values": [1]}}, "no setting named 'grid.beta.settings'"),
        ({"beta": {"setting": "bonus.scale"}}, "grid.beta must have a setting and at least one value, got {'setting'"),
        ({"beta": {"setting": "bonus.scal", "values": [1]}}, "did you mean 'bonus.scale'?"),
        (
            {"s": {"setting": "seed", "values": [1]}},
            "the grid of rnd cannot set 'seed'; set 'seeds' of the study",
        ),
        ({"beta": {"setting": "bonus.scale", "values": [1, 1]}}, "must differ, got freeway/rnd/beta=1/seed-0 twice"),
        ({"k": {"setting": "bonus.options.k", "values": ["a/b"]}}, "variant must be letters, digits"),
    ],
)
def test_an_invalid_grid_is_refused(grid: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make_study("small", SMALL | {"methods": [{"name": "rnd", "grid": grid}]})
    assert message in str(refused.value)


def test_an_option_that_the_bonus_does_not_have_is_refused() -> None:
    grid = {"lr": {"setting": "bonus.options.learnin_rate", "values": [1.0]}}
    study = make_study("small", SMALL | {"methods": [{"name": "rnd", "grid": grid}]})
    with pytest.raises(ConfigError, match=r"did you mean 'bonus\.options\.learning_rate'\?"):
        load_bonuses(study)


@pytest.mark.parametrize("variant", ["a b", "../x", "a/b", ".hidden", "seed-1"])
def test_a_variant_that_cannot_name_a_folder_is_refused(variant: str) -> None:
    with pytest.raises(ConfigError, match="variant must be letters, digits"):
        RunConfig(variant=variant)


def test_the_run_id_has_a_part_for_the_variant_only_if_there_is_one() -> None:
    assert RunConfig(game="hero", method="rnd", seed=3).run_id == "hero/rnd/seed-3"
    assert RunConfig(game="hero", method="rnd", seed=3, variant="beta=2").run_id == "hero/rnd/beta=2/seed-3"


# A bonus of your own


def test_a_bonus_of_your_own_is_a_method_of_a_study() -> None:
    (run,) = make_study("small", SMALL | {"methods": [{"bonus": "examples.simhash:SimHash"}]}).runs
    assert run.run_id == "freeway/sim_hash/seed-0"
    assert run == dataclasses.replace(base_run("freeway", None, "examples.simhash:SimHash"), frames=1_000)


def test_settings_beside_a_bonus_of_your_own_make_no_variant_unless_it_is_named() -> None:
    arm = {"bonus": "a.b:Mine", "settings": {"bonus": {"scale": 0.5}}}
    (run,) = make_study("small", SMALL | {"methods": [arm]}).runs
    assert (run.run_id, run.bonus.scale) == ("freeway/mine/seed-0", 0.5)
    assert ids(methods=[arm | {"variant": "half"}]) == ["freeway/mine/half/seed-0"]


def test_a_bonus_of_your_own_may_have_a_name_a_grid_and_noisy_nets() -> None:
    arm = {"name": "noisy_nets+mine", "bonus": "a.b:Mine", "grid": {"beta": {"setting": "bonus.scale", "values": [2]}}}
    (run,) = make_study("small", SMALL | {"methods": [arm]}).runs
    assert run.run_id == "freeway/noisy_nets+mine/beta=2/seed-0"
    assert (run.exploration.noisy, run.bonus.name, run.bonus.scale) == (True, "a.b:Mine", 2.0)


@pytest.mark.parametrize(
    "content",
    [
        {"settings": {"bonus": {"name": "cts"}}},
        {"methods": [{"name": "cts", "settings": {"bonus": {"name": "rnd"}}}]},
        {"methods": [{"name": "cts", "grid": {"which": {"setting": "bonus.name", "values": ["rnd"]}}}]},
    ],
)
def test_the_bonus_is_set_in_the_table_of_its_method_and_nowhere_else(content: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"cannot set 'bonus\.name'; set `bonus` in a table \[\[methods\]\]"):
        make_study("small", SMALL | content)

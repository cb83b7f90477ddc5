"""Fingerprints outlive versions: those of published runs stay as they are, and a setting that comes later does not set
old runs apart from new ones that do the same."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pytest

from offpiste.analysis.small_worlds import SMALL_WORLDS
from offpiste.config import (
    ADDED_LATER,
    AgentConfig,
    BonusConfig,
    RunConfig,
    fingerprint,
    flatten,
    identity,
    later_defaults,
    method_settings,
    protocol_settings,
)
from offpiste.methods import METHODS, base_run
from offpiste.parsing import Range, from_dict, to_dict
from offpiste.worlds.registry import SUITES

RESULTS = Path(__file__).parents[1] / "results"
ATARI, DEEP_SEA = "f013b7d5a134", "dfaad4a7f3f0"
METHODS_THEN = {
    # method: fingerprint on Atari and on Deep Sea, which decays ε faster
    "epsilon_greedy": ("15e4ff94ebf2", "674a89ac54c8"),
    "noisy_nets": ("828975883595", "c498508fd830"),
    "cts": ("f00c84856e75", "c8b04c9413c2"),
    "pixelcnn": ("e2c3b5c827c4", "ddb1d285dfcc"),
    "icm": ("7fb61f651c1e", "da5f2d1ea107"),
    "rnd": ("076636d77ee9", "33e88d3a2f36"),
    "rnd_released": ("1ca4606abb03", "3440664b1814"),
    "ez_greedy": ("a533e845fdf8", "f318a7a202ac"),
    "simhash": ("683680ac1870", "29dd84fd73de"),
    "oracle": ("b627c4eb1607", "c3181a4d8773"),
    "oracle_episodic": ("4031cc21b75a", "c3a1af820e3f"),
    "oracle_product": ("055d4dfc162d", "e0e9d5fd3211"),
    "oracle_left": ("c0aafb42fb39", "8018dee68486"),
    "e3b": ("c13fb755af67", "6c2dcc1c00c4"),
    "noveld": ("5d7e4f5d15e1", "3c9e39fd99f8"),
    "ngu": ("c3c0eddaccf5", "f86ffc49827f"),
    "rnd_full": ("35f7ca01c007", "5fb0e928cec1"),
    "drnd": ("56fc3bded7cf", "74d4c661a25b"),
    "disagreement": ("97d078a1d7e7", "03205cb1d14d"),
    "ride": ("4cfab400bbc5", "8ba40d739a85"),
    "e3b_rnd": ("1572c42c74b7", "82abb171876c"),
    "cfn": ("64b99c0ea389", "362503ac6cf8"),
}
OWN = base_run("deep_sea_10", bonus="simhash:SimHash")
OTHER: dict[str, Any] = {
    "seed": 3,
    "variant": "beta=0.1",
    "frames": "1M",
    "world": {"sticky_action_probability": 0},
    "agent": {"precision": "bf16", "hidden_units": 256},
    "exploration": {"noisy": True},
    "machine": {"threads": 2},
}
NESTED: dict[str, Any] = {"bits": 32.0, "nested": {"deep": [1.0, 2.5, True], "empty": {}}, "word": "1.0"}
THEN = [
    *((base_run("montezuma_revenge", name), ATARI, then) for name, (then, _) in METHODS_THEN.items()),
    *((base_run("deep_sea_10", name), DEEP_SEA, then) for name, (_, then) in METHODS_THEN.items()),
    (OWN, DEEP_SEA, "543f73b91eaf"),
    (from_dict(RunConfig, {"bonus": {"scale": 0.04, "options": {"bits": 32}}}, base=OWN), DEEP_SEA, "aecfd0366136"),
    (from_dict(RunConfig, {"bonus": {"options": NESTED}}, base=OWN), DEEP_SEA, "27c79a27591e"),
    (from_dict(RunConfig, OTHER), "1719117a556d", "05a24479e4e5"),
]
"""Runs, and the fingerprints of their protocol and their method in the version that first published any."""


def prints(config: RunConfig) -> tuple[str, str]:
    return fingerprint(protocol_settings(config)), fingerprint(method_settings(config))


def test_every_method_has_a_fingerprint_of_then() -> None:
    assert list(METHODS_THEN) == list(METHODS)


@pytest.mark.parametrize(("config", "protocol", "method"), THEN)
def test_fingerprints_are_those_of_published_runs(config: RunConfig, protocol: str, method: str) -> None:
    assert prints(config) == (protocol, method)


@pytest.mark.parametrize("file", sorted(RESULTS.glob("fidelity/*/run.json")), ids=lambda file: file.parent.name)
def test_a_run_of_an_older_version_reads_and_has_the_fingerprints_that_it_was_given(file: Path) -> None:
    about = json.loads(file.read_text(encoding="utf-8"))
    config = from_dict(RunConfig, about["config"])
    assert flatten(to_dict(config)) == later_defaults() | flatten(about["config"])
    assert fingerprint(method_settings(config)) == about["method_fingerprint"]
    protocol = protocol_settings(config) | {"results_version": about["results_version"]}
    assert fingerprint(protocol) == about["protocol_fingerprint"]


def test_published_runs_of_the_small_worlds_are_of_their_methods_as_they_are() -> None:
    listed = json.loads((RESULTS / "small_worlds" / "manifest.json").read_text(encoding="utf-8"))["runs"]
    found = {
        (*run["name"].split("/")[:2], run["protocol_fingerprint"], run["method_fingerprint"])
        for run in listed
        if run["name"].count("/") == 2  # those of the tuning have a variant
    }
    assert found == {
        (game, method, *prints(base_run(game, method)))
        for game in SUITES["small_worlds"]
        for method in SMALL_WORLDS.published
    }


@dataclass(frozen=True)
class LaterTable:
    """A table of settings that was added later."""

    depth: int = 1


@dataclass(frozen=True)
class LaterAgent(AgentConfig):
    double_q: Annotated[bool, ADDED_LATER] = False


@dataclass(frozen=True)
class LaterBonus(BonusConfig):
    extrinsic_scale: Annotated[float, Range(min=0), ADDED_LATER] = 1.0


@dataclass(frozen=True)
class LaterRun(RunConfig):
    """The settings of some later version."""

    agent: LaterAgent = field(default_factory=LaterAgent)
    bonus: LaterBonus = field(default_factory=LaterBonus)
    extra: Annotated[LaterTable, ADDED_LATER] = field(default_factory=LaterTable)


@dataclass(frozen=True)
class UnmarkedAgent(AgentConfig):
    double_q: bool = False


@dataclass(frozen=True)
class UnmarkedRun(RunConfig):
    agent: UnmarkedAgent = field(default_factory=UnmarkedAgent)


@pytest.mark.parametrize(("config", "protocol", "method"), THEN)
def test_a_setting_added_later_leaves_fingerprints_as_they_were_at_its_default(
    config: RunConfig, protocol: str, method: str
) -> None:
    later = from_dict(LaterRun, to_dict(config))
    assert to_dict(later)["agent"]["double_q"] is False
    assert prints(later) == (protocol, method)


@pytest.mark.parametrize(
    ("settings", "protocol_changes", "method_changes"),
    [
        ({"agent": {"double_q": True}}, True, False),
        ({"bonus": {"extrinsic_scale": 0.5}}, False, True),
        ({"bonus": {"extrinsic_scale": 1}}, False, False),
        ({"agent": {"batch_size": 64}}, True, False),
    ],
)
def test_a_setting_added_later_changes_the_fingerprint_of_its_own_kind_off_its_default(
    settings: dict[str, Any], protocol_changes: bool, method_changes: bool
) -> None:
    (protocol, method), (later_protocol, later_method) = prints(LaterRun()), prints(from_dict(LaterRun, settings))
    assert (later_protocol != protocol, later_method != method) == (protocol_changes, method_changes)


def test_a_table_added_later_enters_as_a_whole_off_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offpiste.config.PROTOCOL_TABLES", ("world", "agent", "schedule", "extra"))
    assert prints(LaterRun()) == prints(RunConfig())
    assert protocol_settings(LaterRun(extra=LaterTable(2)))["extra"] == {"depth": 2}


def test_a_setting_that_is_not_marked_as_added_later_sets_all_runs_apart() -> None:
    assert prints(UnmarkedRun())[0] != prints(RunConfig())[0]


def test_what_an_older_run_does_not_say_is_the_default_of_what_was_added_later(monkeypatch: pytest.MonkeyPatch) -> None:
    now = {
        "world.frame_size": 84,
        "world.bootstrap_at_limit": False,
        "world.action_set": "minimal",
        "world.coarse_frame": [11, 8, 8],
        "exploration.max_repeat_steps": 1,
        "exploration.repeat_exponent": 2.0,
        "bonus.decay": 0.0,
        "bonus.extrinsic_scale": 1.0,
        "bonus.normalise": "none",
        "bonus.discount": 0.99,
        "bonus.pays_for": "state",
        "bonus.when": "entry",
        "bonus.heads": 1,
        "bonus.value_low": 0.0,
        "bonus.value_high": 50.0,
        "bonus.ends_with_episode": True,
        "bonus.priorities": "default",
    }
    assert later_defaults() == now
    monkeypatch.setattr("offpiste.config.RunConfig", LaterRun)
    assert later_defaults() == now | {"agent.double_q": False, "bonus.extrinsic_scale": 1.0, "extra.depth": 1}


def test_an_option_added_later_is_in_no_fingerprint_of_a_run_that_does_not_set_it() -> None:
    def of_options(options: dict[str, Any]) -> tuple[str, str]:
        return prints(from_dict(RunConfig, {"bonus": {"name": "simhash:SimHash", "options": options}}))

    assert method_settings(OWN)["bonus"]["options"] == {}
    assert of_options({"bits": 32}) != of_options({"bits": 32, "added": 2})


def test_identity_names_what_was_added_later_with_its_value() -> None:
    assert identity(LaterRun())["agent.double_q"] is False
    assert identity(LaterRun(agent=LaterAgent(double_q=True)))["agent.double_q"] is True

"""Fingerprints outlive versions: those of published runs stay as they are."""

import json
from pathlib import Path
from typing import Any

import pytest

from offpiste.config import (
    RunConfig,
    fingerprint,
    method_settings,
    protocol_settings,
)
from offpiste.methods import METHODS, base_run
from offpiste.parsing import from_dict, to_dict

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
    assert to_dict(config) == about["config"]
    assert fingerprint(method_settings(config)) == about["method_fingerprint"]
    protocol = protocol_settings(config) | {"results_version": about["results_version"]}
    assert fingerprint(protocol) == about["protocol_fingerprint"]

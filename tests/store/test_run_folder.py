"""A folder is one run's, says whose, and gives back what a checkpoint in it holds."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from offpiste.config import RunConfig
from offpiste.errors import CheckpointError, ConfigError, RunMismatch, StoreError
from offpiste.parsing import from_dict
from offpiste.run.train import train
from offpiste.store import layout
from offpiste.store.checkpoints import newest_whole
from offpiste.store.records import from_parquet
from offpiste.store.run_folder import (
    about,
    claim,
    differences,
    holds_only_results,
    mismatch,
    read_config,
    read_records,
    refuse_results_only,
)
from offpiste.store.storage import Folder
from tests.run.test_train import tiny_run
from tests.test_fingerprints import LaterRun


def test_a_folder_without_a_run_has_no_configuration(folder: Folder) -> None:
    with pytest.raises(StoreError, match=r"holds no run: there is no run\.json in it"):
        read_config(folder)


def test_a_folder_is_claimed_once_and_gives_the_configuration_back(folder: Folder) -> None:
    config = tiny_run(seed=5)
    claim(folder, config)
    written = folder.get("run.json")
    claim(folder, config)
    assert folder.get("run.json") == written
    assert read_config(folder) == config
    assert json.loads(written or b"") == about(config)
    assert about(config)["config"]["agent"]["convolution_channels"] == [4, 4, 4]


def test_another_run_is_refused_by_all_that_differs(folder: Folder) -> None:
    claim(folder, RunConfig(seed=1))
    other = RunConfig(seed=2, game="freeway")
    told = differences(RunConfig(seed=1), other)
    assert told == ["game is 'montezuma_revenge' there and 'freeway' here", "seed is 1 there and 2 here"]
    with pytest.raises(RunMismatch, match="; ".join(told)):
        claim(folder, other)


def test_more_frames_or_another_machine_make_no_other_run() -> None:
    machine = dataclasses.replace(RunConfig().machine, threads=3)
    assert differences(RunConfig(), RunConfig(frames=7, machine=machine)) == []


def test_a_run_with_a_setting_that_this_version_does_not_know_is_refused_by_its_name(folder: Folder) -> None:
    there = about(RunConfig())
    there["config"]["agent"]["double_q"] = True
    words = "no setting named 'agent.double_q'; known: adam_epsilon, batch_size, "
    assert mismatch(there, RunConfig()).startswith(f"a run with settings that this version does not know: {words}")
    folder.put("run.json", json.dumps(there).encode())
    with pytest.raises(ConfigError, match=words):
        read_config(folder)


def test_a_run_from_before_a_setting_is_the_run_that_has_it_at_its_default(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(folder, RunConfig(seed=1))
    monkeypatch.setattr("offpiste.store.run_folder.RunConfig", LaterRun)
    claim(folder, LaterRun(seed=1))
    other = from_dict(LaterRun, {"seed": 1, "agent": {"double_q": True}})
    with pytest.raises(RunMismatch, match=r"holds another run: agent\.double_q is False there and True here\. "):
        claim(folder, other)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"agent": {"hidden_units": 10**9}}, r"^agent\.hidden_units must be <= 8_192, got 1000000000$"),
        ({"agent": {"replay_capacity": 10**9}}, r"^agent\.replay_capacity must be <= 100_000_000, got 1000000000$"),
        ({"machine": {"threads": 10**6}}, r"^machine\.threads must be <= 1_024, got 1000000$"),
        ({"agent": {"learning_rate": float("inf")}}, r"^agent\.learning_rate must be finite, got inf$"),
    ],
)
def test_a_folder_from_a_stranger_cannot_ask_for_more_than_a_machine_has(
    folder: Folder, settings: dict[str, Any], message: str
) -> None:
    there = about(RunConfig())
    for table, values in settings.items():
        there["config"][table] |= values
    folder.put("run.json", json.dumps(there).encode())
    with pytest.raises(ConfigError, match=message):
        read_config(folder)


def test_the_records_of_a_checkpoint_are_those_of_the_tables(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    train(tiny_run(), folder)
    found = newest_whole(folder)
    assert found is not None
    records = read_records(found.objects)
    assert records.rows("episodes") == from_parquet(folder.get("episodes.parquet") or b"")
    complete = [row for row in from_parquet(folder.get("iterations.parquet") or b"") if row["complete"]]
    assert records.rows("iterations") == complete
    assert not holds_only_results(folder)


def test_lasting_objects_are_told_apart_by_the_first_word_of_their_names() -> None:
    objects = {"chunk/1": b"a", "chunks": b"b", "part/episodes/1": b"c", "loop": b"d", "chunk": b"e"}
    assert layout.of_kinds(objects, "chunk") == {"chunk/1": b"a", "chunk": b"e"}
    assert layout.of_kinds(objects, "part", "chunk") == {"chunk/1": b"a", "chunk": b"e", "part/episodes/1": b"c"}


def test_a_damaged_manifest_does_not_look_like_a_run_whose_replay_was_dropped(folder: Folder) -> None:
    assert not holds_only_results(folder)
    folder.put("manifests/000000000001-1.json", b"{")
    assert not holds_only_results(folder)
    refuse_results_only(folder)


def test_results_alone_are_refused_with_what_to_do(folder: Folder) -> None:
    from offpiste.store.checkpoints import FORMAT, write_manifest

    manifest = {"format": FORMAT, "step": 1, "attempt": "1", "objects": {"agent": {}}}
    write_manifest(folder, "000000000001-1.json", manifest)
    with pytest.raises(CheckpointError, match="train it anew in another folder"):
        refuse_results_only(folder)

"""A folder holds one run, names it, and refuses any other."""

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from offpiste.analysis.results import load
from offpiste.config import MachineConfig, RunConfig
from offpiste.errors import CheckpointError, ConfigError, Damaged, RunMismatch, StoreError, Superseded
from offpiste.parsing import from_dict
from offpiste.run.train import train
from offpiste.store import documents, layout
from offpiste.store.attempts import attempt_names, begin_attempt
from offpiste.store.checkpoints import Checkpoints, newest_whole, stop_if_superseded
from offpiste.store.documents import parse_run
from offpiste.store.parquet import from_parquet
from offpiste.store.records import read_records
from offpiste.store.run_folder import (
    about,
    claim,
    differences,
    discard,
    holds_only_results,
    mismatch,
    read_config,
    refuse_results_only,
)
from offpiste.store.storage import Folder
from tests.run.test_train import tiny_run
from tests.test_fingerprints import LaterRun


def test_a_folder_without_a_run_has_no_configuration(folder: Folder) -> None:
    with pytest.raises(StoreError, match=r"holds no run: there is no run\.json in it; give the folder of a run"):
        read_config(folder)


def test_a_folder_is_claimed_once_and_returns_its_configuration(folder: Folder) -> None:
    config = tiny_run(seed=5)
    claim(folder, config)
    written = folder.get("run.json")
    claim(folder, config)
    assert folder.get("run.json") == written
    assert read_config(folder) == dataclasses.replace(config, machine=MachineConfig())
    assert documents.unsigned(json.loads(written or b"")) == about(config)
    assert about(config)["config"]["agent"]["convolution_channels"] == [4, 4, 4]


def test_another_run_is_refused_with_every_setting_that_differs(folder: Folder) -> None:
    claim(folder, RunConfig(seed=1))
    other = RunConfig(seed=2, game="freeway")
    lines = differences(RunConfig(seed=1), other)
    assert lines == ["game is 'montezuma_revenge' there and 'freeway' here", "seed is 1 there and 2 here"]
    with pytest.raises(RunMismatch, match="; ".join(lines)):
        claim(folder, other)


def test_with_more_frames_or_another_machine_it_is_the_same_run() -> None:
    machine = dataclasses.replace(RunConfig().machine, threads=3)
    assert differences(RunConfig(), RunConfig(frames=7, machine=machine)) == []


def test_a_run_with_a_setting_unknown_to_this_version_is_refused_with_its_name(folder: Folder) -> None:
    stored = about(RunConfig())
    stored["config"]["agent"]["double_q"] = True
    message = "no setting named 'agent.double_q'; known: adam_epsilon, batch_size, "
    found = mismatch(parse_run(stored), RunConfig())
    assert found.startswith(f"a run with settings unknown to this version: {message}")
    folder.put("run.json", json.dumps(documents.signed(stored)).encode())
    with pytest.raises(ConfigError, match=message):
        read_config(folder)


def test_a_run_older_than_a_setting_is_the_run_with_that_setting_at_its_default(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(folder, RunConfig(seed=1))
    monkeypatch.setattr("offpiste.store.documents.RunConfig", LaterRun)
    claim(folder, LaterRun(seed=1))
    other = from_dict(LaterRun, {"seed": 1, "agent": {"double_q": True}})
    with pytest.raises(RunMismatch, match=r"holds another run: agent\.double_q is False there and True here\. "):
        claim(folder, other)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"agent": {"hidden_units": 10**9}}, r"agent\.hidden_units must be <= 8_192, got 1000000000;"),
        ({"agent": {"replay_capacity": 10**9}}, r"agent\.replay_capacity must be <= 100_000_000, got 1000000000;"),
        ({"agent": {"learning_rate": float("inf")}}, r"a number must be finite, got inf;"),
        (
            {"world": {"frame_size": 512}, "agent": {"hidden_units": 8_192, "convolution_channels": [512]}},
            r"the fully connected layer must have <= 134,217,728 weights, got 68,719,476,736;",
        ),
    ],
)
def test_an_untrusted_folder_cannot_ask_for_more_than_a_machine_has(
    folder: Folder, settings: dict[str, Any], message: str
) -> None:
    stored = about(RunConfig())
    for table, values in settings.items():
        stored["config"][table] |= values
    folder.put("run.json", json.dumps(documents.signed(stored)).encode())
    with pytest.raises((Damaged, ConfigError), match=message):
        read_config(folder)


def test_how_a_stored_run_was_trained_is_not_how_it_is_read(folder: Folder) -> None:
    stored = about(RunConfig(seed=3))
    stored["config"]["machine"] = {"threads": 10**6, "device": "cuda:99"}
    folder.put("run.json", json.dumps(documents.signed(stored)).encode())
    assert read_config(folder) == RunConfig(seed=3)
    assert claim(folder, RunConfig(seed=3)).run_id == RunConfig(seed=3).run_id


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


def test_the_kind_of_an_object_is_its_key_up_to_the_first_slash() -> None:
    objects = {"chunk/1": b"a", "chunks": b"b", "part/episodes/1": b"c", "loop": b"d", "chunk": b"e"}
    assert layout.of_kinds(objects, "chunk") == {"chunk/1": b"a", "chunk": b"e"}
    assert layout.of_kinds(objects, "part", "chunk") == {"chunk/1": b"a", "chunk": b"e", "part/episodes/1": b"c"}


def test_a_damaged_manifest_is_not_taken_for_a_dropped_replay(folder: Folder) -> None:
    assert not holds_only_results(folder)
    folder.put("manifests/000000000001-1.json", b"{")
    assert not holds_only_results(folder)
    refuse_results_only(folder)


def test_a_run_with_only_its_results_kept_is_refused_with_what_to_do(folder: Folder) -> None:
    from offpiste.store.manifests import write_manifest

    agent = {"name": "objects/1", "bytes": 0, "blake2b": "0" * 32}
    manifest = {"format": layout.FORMAT, "step": 1, "attempt": "1", "objects": {"agent": agent}}
    write_manifest(folder, "000000000001-1.json", manifest)
    with pytest.raises(CheckpointError, match="only the results were kept; train it again in another folder"):
        refuse_results_only(folder)


@pytest.mark.parametrize(
    "left", ["manifests/1.json", "objects/1", "attempts/000001-abcdef.json", "finished-000000000008.json"]
)
def test_a_folder_that_has_lost_its_run_json_is_not_given_another(folder: Folder, left: str) -> None:
    folder.put(left, b"{}")
    with pytest.raises(
        CheckpointError, match=r"of a run, but no run\.json, so nothing says of which; restore run\.json"
    ):
        claim(folder, RunConfig())
    assert "run.json" not in folder.list()


def test_a_quarantine_alone_is_no_run(folder: Folder) -> None:
    folder.put("quarantine.json", b"{}")
    assert claim(folder, RunConfig()).run_id == RunConfig().run_id


@pytest.mark.parametrize(("key", "length"), [("variant", 256), ("method", 300), ("game", 1000)])
def test_a_name_that_no_disk_takes_is_refused_with_words(folder: Folder, key: str, length: int) -> None:
    with pytest.raises(ConfigError, match=f"{key} must have <= 255 bytes, got {length:,}; it names a folder"):
        claim(folder, RunConfig(**{key: "x" * length}))  # type: ignore[arg-type]
    assert folder.list() == []


def test_a_run_begins_anew_with_another_bonus_file_only_before_it_recorded_anything(folder: Folder) -> None:
    config = RunConfig()
    claim(folder, config, "old")
    begin_attempt(folder, {})
    assert claim(folder, config, "new").bonus_source == "new"
    folder.put(layout.CHECKPOINTED, b"{}")
    with pytest.raises(RunMismatch, match="from before its file was changed"):
        claim(folder, config, "newer")


def test_another_run_does_not_begin_where_one_recorded_nothing(folder: Folder) -> None:
    claim(folder, RunConfig(seed=1), "old")
    with pytest.raises(RunMismatch, match="seed is 1 there"):
        claim(folder, RunConfig(seed=2), "new")


def test_the_checkpoint_of_a_process_with_the_old_bonus_is_refused_after_the_restart(folder: Folder) -> None:
    config = RunConfig()
    old = claim(folder, config, "old").identity
    late = Checkpoints(folder, begin_attempt(folder, {}), old)
    stored = claim(folder, config, "new")
    late.save(1, {"loop": b"old"}, {})  # just before the new attempt registers
    with pytest.raises(CheckpointError, match="bonus_source"):
        Checkpoints(folder, begin_attempt(folder, {}), stored.identity).restore()


def test_a_discarded_run_leaves_nothing_but_what_stops_its_late_processes(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    train(tiny_run(frames=8), folder)
    late = attempt_names(folder)[-1]
    discard(folder)
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.parent.name for path in left if path.name != layout.DISCARDED} == {layout.ATTEMPTS}
    with pytest.raises(Superseded):
        stop_if_superseded(folder, late)
    with pytest.raises(StoreError, match="there is no run below"):
        load(tmp_path)
    assert train(tiny_run(frames=8, seed=9), folder).state == "finished"
    assert read_config(folder).seed == 9


@pytest.mark.parametrize("part", [layout.OBJECTS, layout.MANIFESTS, "tensorboard", "more"])
def test_discarding_a_run_deletes_links_and_nothing_that_they_lead_to(part: str, tmp_path: Path) -> None:
    ours = tmp_path / "ours" / "deep" / "file"
    ours.parent.mkdir(parents=True)
    ours.write_bytes(b"ours")
    place = tmp_path / "run"
    train(tiny_run(frames=8), Folder(place))
    shutil.rmtree(place / part, ignore_errors=True)
    (place / part).symlink_to(tmp_path / "ours")
    discard(Folder(place))
    assert not (place / part).is_symlink()
    assert not (place / layout.RUN).exists()
    assert ours.read_bytes() == b"ours"


@pytest.mark.parametrize("act", [discard, lambda folder: train(tiny_run(frames=16), folder)], ids=["discard", "train"])
@pytest.mark.parametrize("link", ["run", f"run/{layout.ATTEMPTS}"])
def test_a_run_that_is_elsewhere_by_a_link_is_not_discarded_and_not_trained(
    act: Callable[[Folder], object], link: str, tmp_path: Path
) -> None:
    place, ours = tmp_path / "store" / link, tmp_path / "ours"
    train(tiny_run(frames=8), Folder(tmp_path / "store" / "run"))
    place.rename(ours)
    place.symlink_to(ours)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(StoreError, match=f"{link} is a link to "):
        act(Folder(tmp_path / "store").below("run"))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before

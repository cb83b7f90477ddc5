"""A folder holds one run, names it, and refuses any other; its run.json may be a stranger's."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from offpiste.config import MachineConfig, RunConfig
from offpiste.errors import CheckpointError, ConfigError, Damaged, RunMismatch, StoreError
from offpiste.parsing import from_dict
from offpiste.store import documents, layout
from offpiste.store.attempts import begin_attempt
from offpiste.store.checkpoints import Checkpoints
from offpiste.store.identity import about, claim, differences, mismatch, parse_run, read_config, read_run
from offpiste.store.storage import Folder
from tests.run.test_train import tiny_run
from tests.test_fingerprints import LaterRun

Change = Callable[[dict[str, Any]], object]


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
    monkeypatch.setattr("offpiste.store.identity.RunConfig", LaterRun)
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


def of(table: str, **values: Any) -> Change:
    return lambda stored: stored["config"][table].update(values)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda stored: stored.update(run_id="a\x1b[2Jb"), "run_id must be 1 to 1000 characters without control"),
        (lambda stored: stored["config"].update(game="x\u202egnp"), "game must be 1 to 1000 characters without"),
        (lambda stored: stored["config"].update(game=""), "game must be 1 to 1000 characters"),
        (lambda stored: stored["config"].update(game="g" * 1001), "game must be 1 to 1000 characters"),
        (lambda stored: stored["config"].update(game=["pong"]), "game must be a string"),
        (lambda stored: stored["config"].update(seed=2**63 - 1, frames=-1), "frames must be >= 0"),
        (lambda stored: stored["config"].update(seed=2**64), "an integer must have <= 64 bits, got 65"),
        (lambda stored: stored["config"].update(world=7), "world must be a table, got 7"),
        (lambda stored: stored["config"].pop("seed"), "seed must be set"),
        (of("schedule", iteration_steps=0), "schedule.iteration_steps must be >= 1"),
        (of("schedule", iteration_steps=True), "schedule.iteration_steps must be an int, got True"),
        (of("world", frame_skip=1e300), "world.frame_skip must be an int"),
        (of("agent", learning_rate=float("nan")), "a number must be finite, got nan"),
        (lambda stored: stored["config"]["world"].pop("frame_skip"), "world.frame_skip must be set"),
        (lambda stored: stored.update(results_version="3" * 30), "results_version must be"),
        (lambda stored: stored.update(bonus_source=5), "bonus_source must be a string, got 5"),
        (lambda stored: stored.update(config=[]), "config must be a table"),
        (lambda stored: stored.pop("method_fingerprint"), "method_fingerprint must be set"),
        (of("bonus", options={"text": "x" * 200_000}), "a text must have <= 100,000 bytes"),
        (of("bonus", options={"text": "\ud800"}), "no half of a character"),
        (of("bonus", options=json.loads("[" * 20 + "]" * 20)), "it must be nested <= 16 deep"),
    ],
)
def test_a_run_json_is_refused_with_the_reason(tmp_path: Path, change: Change, reason: str) -> None:
    stored = about(RunConfig())
    change(stored)
    Folder(tmp_path).put("run.json", json.dumps(documents.signed(stored)).encode())
    with pytest.raises(Damaged) as refused:
        read_run(Folder(tmp_path))
    assert reason in str(refused.value)
    assert str(refused.value).startswith(f"run.json in {tmp_path} is damaged: ")


@pytest.mark.parametrize(("key", "seen"), [("format", "an older one"), ("format", 2), ("format", 4)])
def test_a_folder_of_another_format_is_refused_with_what_to_do(tmp_path: Path, key: str, seen: Any) -> None:
    stored = about(RunConfig()) | {key: seen, "offpiste": "0.0.9"}
    if seen == "an older one":
        del stored[key]
    Folder(tmp_path).put("run.json", json.dumps(stored).encode())
    with pytest.raises(Damaged) as refused:
        read_run(Folder(tmp_path))
    assert str(refused.value) == (
        f"run.json in {tmp_path} must have format {layout.FORMAT}, got {seen}; read and resume the run with the "
        "version of offpiste that wrote it (0.0.9), or train it again in another folder"
    )


def test_a_run_json_that_was_changed_or_has_no_checksum_is_refused(tmp_path: Path) -> None:
    folder, stored = Folder(tmp_path), about(RunConfig())
    folder.put("run.json", json.dumps(stored).encode())
    with pytest.raises(Damaged, match="it has no checksum; restore it from a backup"):
        read_run(folder)
    folder.put("run.json", json.dumps(documents.signed(stored), indent=1).encode())
    found = read_run(folder)
    assert found is not None
    assert found.settings == RunConfig()
    data = (folder.get("run.json") or b"").replace(b'"seed": 0', b'"seed": 1')
    folder.put("run.json", data)
    with pytest.raises(Damaged, match="its checksum differs; restore it from a backup"):
        read_run(folder)


def test_a_setting_of_a_later_version_is_kept(tmp_path: Path) -> None:
    stored = about(RunConfig())
    stored["config"]["agent"]["double_q"] = True
    stored["later"] = 1
    Folder(tmp_path).put("run.json", json.dumps(documents.signed(stored)).encode())
    found = read_run(Folder(tmp_path))
    assert found is not None
    assert found.config["agent"]["double_q"] is True

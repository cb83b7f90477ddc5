"""Damage to a store and mixed-up runs are reported by every command, never used in silence."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from offpiste import arrays
from offpiste.analysis.results import load
from offpiste.cli import main
from offpiste.config import RunConfig
from offpiste.errors import CheckpointError
from offpiste.methods import base_run
from offpiste.parsing import from_dict
from offpiste.run.digest import digest
from offpiste.run.train import train
from offpiste.store import documents
from offpiste.store.identity import about
from offpiste.store.manifests import manifest_names, read_manifest
from offpiste.store.storage import Folder
from offpiste.study.keep import keep_results

BASE = base_run("deep_sea_3", "cts")
RUN = from_dict(type(BASE), {"frames": 30, "agent": {"replay_capacity": 100}}, base=BASE)
LONGER = replace(RUN, frames=60)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with two checkpoints."""
    path = tmp_path_factory.mktemp("trained")
    for run in (RUN, LONGER):
        assert train(run, Folder(path)).state == "finished"
    assert len(manifest_names(Folder(path))) == 2
    return path


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def newest(run: Path, key: str) -> Path:
    """Return the file of an object of the newest checkpoint."""
    folder = Folder(run)
    return run / str(read_manifest(folder, manifest_names(folder)[-1])["objects"][key]["name"])


def flip(path: Path, position: int = 20) -> None:
    """Change one byte of a file."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def change_run_json(run: Path, **values: Any) -> None:
    stored = documents.unsigned(json.loads((run / "run.json").read_text()))
    (run / "run.json").write_text(json.dumps(documents.signed(stored | values)))


@pytest.mark.parametrize("command", ["eval {} --episodes 1", "watch {} --out {}.gif --steps 3", "digest {}"])
def test_a_command_that_uses_an_older_checkpoint_says_so(
    run: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = command.replace("{}", str(run)).split()
    assert main(words) == 0
    whole = capsys.readouterr()
    assert whole.err == ""
    flip(newest(run, "agent"))
    assert main(words) == 0
    printed = capsys.readouterr()
    assert printed.err.startswith("offpiste: the checkpoint of step 30 is used, since a newer one is broken: objects/")
    assert (printed.out != whole.out) == command.startswith("digest")


@pytest.mark.parametrize("command", ["eval {} --episodes 1", "watch {} --out {}.gif --steps 3", "digest {}"])
def test_a_command_notices_that_the_newest_manifest_is_gone(
    run: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "manifests" / manifest_names(Folder(run))[-1]).unlink()
    assert main(command.replace("{}", str(run)).split()) == 0
    assert capsys.readouterr().err.startswith(
        "offpiste: the checkpoint of step 30 is used, since a newer one is broken: the run finished at step 60, and"
    )


def test_a_manifest_under_the_name_of_another_is_damaged(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    older, newer = manifest_names(Folder(run))
    shutil.copy(run / "manifests" / older, run / "manifests" / newer)
    assert main(["digest", str(run)]) == 0
    warning = f"a newer one is broken: manifests/{newer} is damaged: it is that of step 30"
    assert warning in capsys.readouterr().err


def test_a_run_whose_newest_manifest_is_gone_resumes_from_the_older_one_and_says_so(run: Path) -> None:
    again = Path(shutil.copytree(run, run.with_name("again")))
    (run / "manifests" / manifest_names(Folder(run))[-1]).unlink()
    longer = replace(LONGER, frames=90)
    digests = []
    for path in (run, again):
        assert train(longer, Folder(path)).state == "finished"
        digests.append(digest(Folder(path)))
    assert digests[0] == digests[1]
    notes = [json.loads(file.read_text())["note"] for file in sorted((run / "attempts").iterdir())]
    assert notes[-1].startswith("resumed from step 30, since a newer checkpoint is broken: the run finished at step 60")


def test_what_is_watched_is_of_one_checkpoint(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flip(newest(run, "bonus"))
    assert main(["watch", str(run), "--out", f"{run}.gif", "--steps", "3"]) == 0
    assert "the checkpoint of step 30 is used, since a newer one is broken" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["eval {} --episodes 1", "watch {} --out {}.gif --steps 3", "digest {}"])
def test_checkpoints_of_another_run_are_refused(run: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    other = about(replace(LONGER, seed=1))
    change_run_json(run, **other)
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    assert main(command.replace("{}", str(run)).split()) == 1
    assert "belongs to another run than run.json: run_id 'deep_sea_3/cts/seed-0' for" in capsys.readouterr().err
    with pytest.raises(CheckpointError, match="belongs to another run"):
        train(replace(LONGER, seed=1, frames=90), Folder(run))
    assert {file: file.read_bytes() for file in before} == before
    assert {"damaged checkpoint", "damaged mark", "damaged status.json"} <= {each.kind for each in load(run).warnings}


def test_a_run_without_its_run_json_is_not_given_another(run: Path) -> None:
    (run / "run.json").unlink()
    with pytest.raises(CheckpointError, match=r"of a run, but no run\.json"):
        train(LONGER, Folder(run))
    assert not (run / "run.json").exists()


def test_a_table_that_was_changed_is_taken_from_the_checkpoint(run: Path) -> None:
    whole = load(run).columns("FROM iterations")
    for path in [run / "iterations.parquet", *(run / "tables").glob("*-iterations.parquet")]:
        flip(path, position=path.stat().st_size // 2)
    damaged = load(run)
    assert ("damaged table", ".") in [(warning.kind, warning.where) for warning in damaged.warnings]
    assert "its checksum differs" in damaged.warnings[0].message
    assert damaged.columns("SELECT return_mean FROM iterations WHERE complete") == [
        [value for value, complete in zip(whole[8], whole[3], strict=True) if complete]
    ]


@pytest.mark.parametrize("key", ["agent", "bonus"])
def test_results_are_kept_only_if_all_of_them_are_whole(run: Path, key: str) -> None:
    folder = Folder(run)
    objects = read_manifest(folder, manifest_names(folder)[-1])["objects"]
    flip(run / objects[key]["name"], 5)
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    with pytest.raises(
        CheckpointError, match=r"nothing of the run in .* was dropped, since what is to be kept is damaged"
    ):
        keep_results(folder)
    assert {file: file.read_bytes() for file in run.rglob("*") if file.is_file()} == before


def test_results_are_not_dropped_where_the_newest_manifest_is_broken(run: Path) -> None:
    folder = Folder(run)
    (run / "manifests" / manifest_names(folder)[-1]).write_text("{")
    with pytest.raises(CheckpointError, match="was dropped, since what is to be kept is damaged: manifests/"):
        keep_results(folder)


def test_older_weights_are_not_kept_as_results_where_the_newest_manifest_is_gone(run: Path) -> None:
    (run / "manifests" / manifest_names(Folder(run))[-1]).unlink()
    with pytest.raises(CheckpointError, match="finished at step 60, and the manifest of that checkpoint is missing"):
        keep_results(Folder(run))
    assert not (run / "results.json").exists()


def test_an_object_that_is_whole_but_not_ours_is_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Folder(run)
    name = manifest_names(folder)[-1]
    manifest = json.loads((run / "manifests" / name).read_text())
    del manifest["blake2b"]
    entry = manifest["objects"]["agent"]
    (run / entry["name"]).write_bytes(b"\xff" * 100)
    entry |= {"bytes": 100, "blake2b": documents.checksum(b"\xff" * 100)}
    (run / "manifests" / name).write_text(json.dumps(documents.signed(manifest)))
    for command in ("eval", "digest"):
        assert main([command, str(run)]) == 1
        assert "is whole, but cannot be restored by this version" in capsys.readouterr().err
    with pytest.raises(CheckpointError, match="is whole, but cannot be restored"):
        train(replace(LONGER, frames=90), folder)


@pytest.mark.parametrize("value", ["many", math.inf, -(2**70)])
def test_a_bonus_whose_state_is_whole_but_not_ours_is_not_watched(
    run: Path, value: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    file = newest(run, "bonus")
    data = arrays.pack(arrays.unpack(file.read_bytes()) | {"seen": value})
    file.write_bytes(data)
    manifest = run / "manifests" / manifest_names(Folder(run))[-1]
    content = documents.unsigned(json.loads(manifest.read_text()))
    content["objects"]["bonus"] |= {"bytes": len(data), "blake2b": documents.checksum(data)}
    manifest.write_text(json.dumps(documents.signed(content)))
    assert main(["watch", str(run), "--out", f"{run}.gif", "--steps", "3"]) == 1
    assert "broken" in (printed := capsys.readouterr().err) or "is whole, but cannot be restored" in printed


def test_a_digest_asks_for_no_more_memory_than_the_replay_has(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored = json.loads((run / "run.json").read_text())
    stored["config"]["agent"]["replay_capacity"] = 10**8
    change_run_json(run, config=stored["config"])
    assert main(["digest", str(run)]) == 1
    assert "the replay has 100 entries, and agent.replay_capacity is 100,000,000" in capsys.readouterr().err


def test_control_characters_of_a_store_are_shown_and_not_obeyed(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "\x1b]0;title\x07\x1b[2J\u202e"
    change_run_json(run, protocol_fingerprint=hostile)
    assert main(["eval", str(run)]) == 1
    name = tmp_path / f"a{hostile}b"
    assert main(["eval", str(name)]) == 1
    printed = capsys.readouterr()
    assert not {"\x1b", "\x07", "\u202e"} & {*printed.err, *printed.out}
    assert r"\x1b]0;title\x07\x1b[2J\u202e" in printed.err


def test_the_note_of_a_run_is_shown_on_one_line_and_not_obeyed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "study.toml").write_text(
        'games = ["deep_sea_3"]\nmethods = ["epsilon_greedy"]\nseeds = [0, 1]\nframes = 30\n'
    )
    folder = Folder(tmp_path / "store")
    name = RunConfig(game="deep_sea_3").run_id
    folder.put(
        f"{name}/status.json", json.dumps(documents.signed({"state": "failed", "note": "one\x1b[2J\r\ntwo"})).encode()
    )
    assert main(["study", "status", str(tmp_path / "study.toml"), "--store", folder.location]) == 0
    assert r"one\x1b[2J\r two" in capsys.readouterr().out

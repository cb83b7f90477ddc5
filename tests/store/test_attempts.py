"""A discarded run leaves nothing but its attempts, and a process is known by its machine, its id and its start."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from offpiste.analysis.results import load
from offpiste.errors import StoreError, Superseded
from offpiste.run.train import train
from offpiste.store import attempts, layout
from offpiste.store.attempts import attempt_names, discard, has_ended, this_process
from offpiste.store.checkpoints import stop_if_superseded
from offpiste.store.identity import read_config
from offpiste.store.storage import Folder
from tests.run.test_train import tiny_run

NAME = "from offpiste.store.attempts import this_process; print(this_process(), flush=True); input()"


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


@pytest.mark.parametrize("proc", [True, False])
def test_a_process_has_ended_once_it_was_killed_and_only_then(proc: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    command = NAME
    if not proc:  # as on macOS
        command = "from pathlib import Path; import offpiste.store.attempts as p; "
        command += f"p._BOOT = p._PROCESSES = Path('/none'); {NAME}"
        monkeypatch.setattr(attempts, "_BOOT", Path("/none"))
        monkeypatch.setattr(attempts, "_PROCESSES", Path("/none"))
    attempts._machine.cache_clear()
    with subprocess.Popen([sys.executable, "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        name = process.stdout.readline().decode().strip()
        before = has_ended(name)
        process.kill()
        process.wait()
        assert (before, has_ended(name)) == (False, True)
    assert not has_ended(this_process())
    attempts._machine.cache_clear()


def test_a_later_process_with_the_same_id_is_another_and_one_elsewhere_never_ends() -> None:
    machine, pid, start = this_process().split("-", 2)
    assert has_ended(f"{machine}-{pid}-{int(start) - 1}")
    assert not has_ended(f"00000000-{pid}-{int(start) - 1}")
    for crooked in ("", "x", f"{machine}-", f"{machine}-x-1"):
        assert not has_ended(crooked)

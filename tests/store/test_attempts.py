"""A discarded run leaves nothing but its attempts, and harms nothing that a link leads to."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from offpiste.analysis.results import load
from offpiste.errors import StoreError, Superseded
from offpiste.run.train import train
from offpiste.store import layout
from offpiste.store.attempts import attempt_names, discard
from offpiste.store.checkpoints import stop_if_superseded
from offpiste.store.identity import read_config
from offpiste.store.storage import Folder
from tests.run.test_train import tiny_run


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

"""Reading an untrusted store: no command imports a module that the store names."""

import json
import shutil
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from offpiste.bonuses import registry
from offpiste.cli import main
from offpiste.methods import base_run
from offpiste.parsing import from_dict, to_dict
from offpiste.run.train import train
from offpiste.store import documents
from offpiste.store.storage import Folder

RUN = "deep_sea_3/cts/seed-0"
EVIL = """
from pathlib import Path

from offpiste.bonuses.cts import Cts as Evil

Path(__file__).with_name("imported").touch()
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a short run of CTS."""
    config = base_run("deep_sea_3", "cts")
    folder = tmp_path_factory.mktemp("store") / RUN
    train(from_dict(type(config), {"frames": 30, "agent": {"replay_capacity": 100}}, base=config), Folder(folder))
    return folder


@pytest.fixture
def hostile(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store in the current folder whose run names an importable module there, which records its import."""
    shutil.copytree(run, tmp_path / RUN)
    (tmp_path / "evil.py").write_text(EVIL)
    name_bonus(tmp_path / RUN, "evil:Evil")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, ""])
    monkeypatch.delitem(sys.modules, "evil", raising=False)
    return tmp_path


def name_bonus(run: Path, name: str) -> None:
    about = documents.unsigned(json.loads((run / "run.json").read_text()))
    about["config"]["bonus"]["name"] = name
    (run / "run.json").write_text(json.dumps(documents.signed(about)))


def write_study(folder: Path) -> None:
    settings = to_dict(base_run("deep_sea_3", "cts"))["bonus"]
    arm = {"name": "cts", "bonus": "evil:Evil", "settings": {"bonus": {"options": settings["options"]}}}
    study: dict[str, Any] = {"games": ["deep_sea_3"], "methods": [arm], "seeds": [0], "frames": 30}
    (folder / "study.toml").write_text(tomli_w.dumps(study))


@pytest.mark.parametrize(
    "command",
    [
        f"eval {RUN} --episodes 1",
        f"digest {RUN}",
        f"watch {RUN}",
        "report .",
        "study status study.toml --store .",
        "study status study.toml --store . --json",
        "study retry study.toml --store .",
        "study stop study.toml --store .",
        "doctor --out .",
    ],
)
def test_a_command_that_reads_a_store_does_not_import_the_bonus_it_names(command: str, hostile: Path) -> None:
    write_study(hostile)
    code = main(command.split())
    assert code == (1 if command.startswith("watch") else 0)
    assert not (hostile / "imported").exists()


@pytest.mark.parametrize(
    "command",
    [
        f"eval {RUN} --episodes 1",
        f"digest {RUN}",
        f"watch {RUN}",
        "report .",
        "bundle . --out bundle",
        "verify .",
        "study status study.toml --store .",
        "study status --store .",
    ],
)
@pytest.mark.parametrize("game", ["evil:Evil", "gymnasium:evil:Evil-v0"])
def test_a_command_that_reads_a_store_does_not_import_the_world_it_names(
    game: str, command: str, hostile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    about = documents.unsigned(json.loads((hostile / RUN / "run.json").read_text()))
    about["config"] |= {"game": game, "bonus": to_dict(base_run("deep_sea_3", "cts"))["bonus"]}
    (hostile / RUN / "run.json").write_text(json.dumps(documents.signed(about)))
    content = tomli_w.dumps({"games": [game], "methods": ["cts"], "seeds": [0], "frames": 30})
    (hostile / "study.toml").write_text(content)
    (hostile / "studies").mkdir()
    (hostile / "studies" / "study.toml").write_text(content)
    plays = command.startswith(("eval", "watch"))
    code = main(command.split())
    assert code == int(plays) or command.startswith("study")  # of whose runs there is none
    assert not (hostile / "imported").exists()
    assert not plays or "If you know it, give --trust-world" in capsys.readouterr().err


def test_watch_names_the_bonus_that_it_does_not_import_and_the_option_to_trust_it(
    hostile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", RUN, "--out", "a.gif"]) == 1
    assert capsys.readouterr().err == (
        "offpiste: the run names the bonus 'evil:Evil', which no installed package declares, so it was not imported: "
        "its module could do anything. If you know it, give --trust-bonus\n"
    )
    assert not (hostile / "a.gif").exists()


def test_watch_imports_a_bonus_that_is_trusted(hostile: Path) -> None:
    assert main(["watch", RUN, "--out", "a.gif", "--trust-bonus"]) == 0
    assert (hostile / "imported").exists()
    assert (hostile / "a.gif").exists()


@pytest.mark.parametrize("name", ["cts", "offpiste.bonuses.cts:Cts", "declared", "evil:Evil"])
def test_watch_trusts_built_in_bonuses_and_those_that_an_installed_package_declares(
    name: str, hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = types.SimpleNamespace(name="declared", value="evil:Evil")
    monkeypatch.setattr(registry, "entry_points", lambda **_: [point])
    name_bonus(hostile / RUN, name)
    assert main(["watch", RUN, "--out", "a.gif"]) == 0


@pytest.mark.parametrize("name", ["antigravity:x", "this:Bonus"])
def test_an_installed_module_that_declares_no_bonus_is_not_trusted(name: str, hostile: Path) -> None:
    name_bonus(hostile / RUN, name)
    before = set(sys.modules)
    assert main(["watch", RUN]) == 1
    assert name.partition(":")[0] not in set(sys.modules) - before


@pytest.mark.parametrize(
    ("command", "outputs"),
    [
        (
            ["report", "."],
            ["index.html", "commands.txt", "tables/runs.csv", "figures/game_deep_sea_3_cells.png"],
        ),
        (["export", ".", "--to", "csv"], ["episodes.csv"]),
        (["watch", RUN, "--steps", "2"], ["episode.mp4"]),
        (["watch", RUN, "--steps", "2", "--out", "episode.gif"], ["episode.gif"]),
    ],
)
def test_an_output_replaces_a_link_of_the_store_and_leaves_what_it_leads_to(
    command: list[str], outputs: list[str], run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, store = tmp_path / "mine", tmp_path / "store"
    mine.write_text("mine")
    shutil.copytree(run, store / RUN)
    monkeypatch.chdir(store)
    folder = Path({"watch": "."}.get(command[0], command[0]))
    for output in outputs:
        (folder / output).parent.mkdir(parents=True, exist_ok=True)
        (folder / output).symlink_to(mine)
    assert main(command) == 0
    assert mine.read_text() == "mine"
    for output in outputs:
        assert (folder / output).stat().st_size > 0
        assert not (folder / output).is_symlink()


@pytest.mark.parametrize(
    ("link", "command"),
    [
        ("report", ["report", "."]),
        ("report/tables", ["report", "."]),
        ("export", ["export", ".", "--to", "csv"]),
        ("export/deep_sea_3", ["export", ".", "--to", "tensorboard"]),
    ],
)
def test_a_folder_of_the_store_that_is_a_link_gets_no_output(
    link: str, command: list[str], run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    mine, store = tmp_path / "mine", tmp_path / "store"
    mine.mkdir()
    shutil.copytree(run, store / RUN)
    monkeypatch.chdir(store)
    Path(link).parent.mkdir(exist_ok=True)
    Path(link).symlink_to(mine)
    assert main(command) == 1
    assert f"{link} must be a folder, and is a link to {mine}" in capsys.readouterr().err
    assert not list(mine.iterdir())

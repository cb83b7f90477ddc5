"""The bonuses in examples/: what they pay, what they promise, and that they train from the command line."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from offpiste import arrays
from offpiste.bonuses.base import Context, Transition
from offpiste.bonuses.contract.check import check_bonus
from offpiste.bonuses.contract.play import warm_up
from offpiste.bonuses.registry import build, find
from offpiste.config import BonusConfig
from offpiste.errors import ConfigError
from offpiste.parsing import to_toml
from offpiste.seeding import stream
from offpiste.store.parquet import from_parquet
from tests.documented import ROOT, blocks
from tests.run.small import small_run
from tests.sameness import assert_same

EXAMPLES = Path(__file__).parents[1] / "examples"
NAMES = ("simhash:SimHash", "oracle:Oracle", "distillation:Distillation")


@pytest.fixture(autouse=True)
def examples_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)


def made(name: str, *, game: str = "montezuma_revenge", seed: int = 0, **options: Any) -> Any:
    context = Context(game, 18, 4, (84, 84), stream(seed, "bonus"))
    return build(BonusConfig(name=name, options=options), context)


def transition(frame: Any = 0, ram: dict[int, int] | None = None) -> Transition:
    state = np.zeros((4, 84, 84), np.uint8)
    state[-1] = frame
    memory = np.zeros(128, np.uint8)
    for byte, value in (ram or {}).items():
        memory[byte] = value
    return Transition(state, 0, 0.0, np.zeros_like(state), False, False, 0, memory)


def noise(seed: int) -> Any:
    return stream(seed, "picture").integers(256, size=(84, 84), dtype=np.uint8)


def first_bonus(page: str) -> str:
    """Return the first bonus that a page shows."""
    return next(text for _, text in blocks(ROOT / page) if text.startswith("# counts.py\n"))


def test_the_first_bonus_has_twelve_lines_and_is_the_same_on_every_page() -> None:
    shown = first_bonus("README.md")
    assert len([line for line in shown[shown.index("class ") :].splitlines() if line.strip()]) == 12
    assert first_bonus("docs/your-bonus.md") == shown


def test_the_first_bonus_keeps_the_contract_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "counts.py").write_text(first_bonus("README.md"), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    report = check_bonus(find("counts:Counts"), quick=True, new_process=False)
    assert report.passed, str(report)
    bonus = made("counts:Counts")
    assert [bonus.observe(transition(0)) for _ in range(2)] == [1.0, pytest.approx(2**-0.5)]
    assert bonus.observe(transition(255)) == 1.0


def test_a_complete_bonus_fits_on_a_page() -> None:
    lines = (EXAMPLES / "simhash.py").read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if line.strip()]) <= 50


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_keep_the_contract(name: str) -> None:
    report = check_bonus(
        find(name), new_process=False
    )  # which the bonuses of the package go through, and these pay the same
    assert report.passed, str(report)


def test_an_option_of_an_example_out_of_its_range_is_named_by_the_contract() -> None:
    report = check_bonus(find("simhash:SimHash"), {"bits": 0})
    assert not report.passed
    assert "bonus.options.bits must be >= 1, got 0" in " ".join(str(report).split())


def test_simhash_pays_one_over_the_root_of_the_visits_of_a_frame() -> None:
    bonus = made("simhash:SimHash")
    black, other = transition(0), transition(noise(1))
    assert [bonus.observe(black) for _ in range(4)] == pytest.approx([1.0, 2**-0.5, 3**-0.5, 0.5])
    assert bonus.observe(other) == 1.0
    assert bonus.observe(black) == pytest.approx(5**-0.5)


def test_frames_that_hardly_differ_share_a_code_and_more_bits_distinguish_them() -> None:
    frame = noise(1)
    slightly = frame.copy()
    slightly[40:44, 40:44] ^= 64
    paid = {}
    for bits in (16, 4_096):
        bonus = made("simhash:SimHash", bits=bits)
        bonus.observe(transition(frame))
        paid[bits] = bonus.observe(transition(slightly))
    assert paid == {16: pytest.approx(2**-0.5), 4_096: 1.0}


def test_simhash_sees_only_the_newest_frame_before_the_step() -> None:
    bonus = made("simhash:SimHash")
    first = transition(noise(1))
    bonus.observe(first)
    older = first.state.copy()
    older[:3] = noise(2)
    assert bonus.observe(replace(first, state=older, next_state=older[::-1].copy())) == pytest.approx(2**-0.5)


def test_the_oracle_counts_cells_of_eight_by_eight_pixels() -> None:
    bonus = made("oracle:Oracle")  # the room is byte 3, the level byte 57, x byte 42 and y byte 43
    here = {3: 1, 57: 0, 42: 80, 43: 160}
    assert bonus.observe(transition(ram=here)) == 1.0
    assert bonus.observe(transition(ram=here | {42: 87, 43: 167})) == pytest.approx(2**-0.5)
    for elsewhere in ({42: 88}, {43: 159}, {3: 2}, {57: 1}):
        assert bonus.observe(transition(ram=here | elsewhere)) == 1.0
    assert bonus.observe(transition(noise(1), ram=here | {0: 7})) == pytest.approx(3**-0.5)


def test_the_oracle_says_where_it_can_count() -> None:
    with pytest.raises(
        ConfigError, match=r"locates the player, got asterix; choose one of montezuma_revenge, .*deep_sea_N"
    ):
        made("oracle:Oracle", game="asterix")
    assert made("oracle:Oracle", game="deep_sea_5") is not None


@pytest.mark.parametrize(("example", "packaged"), [(NAMES[0], "simhash"), (NAMES[1], "oracle")])
def test_a_bonus_of_the_package_pays_what_its_example_pays(example: str, packaged: str) -> None:
    one, other = made(example), made(packaged)
    steps = warm_up(steps=400)
    assert [one.observe(step) for step in steps] == [other.observe(step) for step in steps]
    assert_same(one.state(), other.state())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seen", [0, 3])
def test_what_an_example_saves_is_all_that_it_knows(name: str, seen: int) -> None:
    bonus, other = made(name), made(name, seed=1)
    for step in range(seen):
        bonus.observe(transition(noise(step), {42: 8 * step}))
    other.load_state(arrays.unpack(arrays.pack(bonus.state())))
    for step in (0, 1, 1, 7):
        shown = transition(noise(step), {42: 8 * step})
        assert bonus.observe(shown) == other.observe(shown)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), [(NAMES[0], ["--bonus.options.bits", "32"]), (NAMES[1], [])])
def test_an_example_is_trained_from_the_command_line(name: str, options: list[str], tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    text = to_toml(small_run())
    settings.write_text(text[: text.index("[exploration]")].replace('method = "epsilon_greedy"\n', ""))
    run = [sys.executable, "-P", "-c", "import sys; from offpiste.cli import main; sys.exit(main())"]
    command = [*run, "train", "--config", str(settings), "--out", str(tmp_path), "--frames", "600", "--bonus", name]
    done = subprocess.run([*command, *options], cwd=EXAMPLES, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    method = {NAMES[0]: "sim_hash", NAMES[1]: "epsilon_greedy+oracle.Oracle"}[name]
    folder = tmp_path / "montezuma_revenge" / method / "seed-0"
    iterations = from_parquet((folder / "iterations.parquet").read_bytes())
    episodes = from_parquet((folder / "episodes.parquet").read_bytes())
    assert sum(row["steps"] for row in iterations) == 200
    assert all(0.0 < row["intrinsic_q05"] <= row["intrinsic_mean"] < row["intrinsic_max"] == 1.0 for row in iterations)
    assert all(0.0 < row["intrinsic_sum"] < row["steps"] for row in episodes)
    assert sum(row["updates"] for row in iterations) > 10


def executed(name: str, folder: Path) -> list[Any]:
    """Execute a notebook in `examples` of a folder beside the results, and return the outputs of its cells."""
    (folder / "results").symlink_to(EXAMPLES.parent / "results")
    notebook = folder / "examples" / name
    notebook.parent.mkdir()
    notebook.write_bytes((EXAMPLES / name).read_bytes())
    program = "from nbclient.cli import main; main()"
    run = [sys.executable, "-c", program, "--timeout", "600", "--inplace", str(notebook)]
    subprocess.run(run, check=True, cwd=notebook.parent)
    return [output for cell in json.loads(notebook.read_text())["cells"] for output in cell.get("outputs", [])]


def test_the_notebook_draws_its_figure(tmp_path: Path) -> None:
    outputs = executed("figure.ipynb", tmp_path)
    assert (tmp_path / "examples" / "figure.pdf").read_bytes().startswith(b"%PDF")
    assert any("image/png" in output.get("data", {}) for output in outputs)


@pytest.mark.slow
def test_the_notebook_of_the_first_bonus_trains_it_and_draws_where_it_went(tmp_path: Path) -> None:
    outputs = executed("first_bonus.ipynb", tmp_path)
    assert (tmp_path / "examples" / "counts.py").read_text() == first_bonus("README.md")
    printed = "".join("".join(output.get("text", "")) for output in outputs)
    scores = {name: float(score) for name, score in re.findall(r"^(counts|epsilon_greedy) +(\S+)$", printed, re.M)}
    assert set(scores) == {"counts", "epsilon_greedy"}
    assert any("image/png" in output.get("data", {}) for output in outputs)

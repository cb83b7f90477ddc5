"""The program that answers the questions of docs/evidence.md: its rules, and a whole pass over made-up runs."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from benchmarks.validation import evidence as program
from benchmarks.validation.evidence import Explored, can_be_seen, exceeds, explore_more
from offpiste.analysis.curves import return_curves
from offpiste.analysis.results import load
from offpiste.config import AgentConfig, RunConfig, ScheduleConfig
from offpiste.report.page import Report, build
from offpiste.rows import CellRow
from offpiste.store.records import to_parquet
from offpiste.store.storage import Folder
from offpiste.study.plan import read_study
from tests.analysis.small_store import config_of, iteration_rows, write_run

RANDOM = [Explored(f"montezuma_revenge/epsilon_greedy/seed-{seed}", (30 + seed,), (2,), None) for seed in range(3)]


def ran(method: str, seed: int, *cells: int, rooms: int = 1) -> Explored:
    return Explored(f"montezuma_revenge/{method}/seed-{seed}", cells, (rooms,) * len(cells), None)


@pytest.mark.parametrize(
    ("oracle", "seen", "says"),
    [
        (ran("oracle", 0, 32, 32, rooms=2), False, "no bonus can show anything"),
        (ran("oracle", 0, 33, 33), True, "after one million frames already"),
        (ran("oracle", 0, 32, 33), True, "after two million frames alone"),
        (ran("oracle", 0, 5, 5, rooms=3), True, "after one million frames already"),
    ],
)
def test_something_can_be_seen_if_the_oracle_has_more_cells_or_rooms_than_every_random_run(
    oracle: Explored, seen: bool, says: str
) -> None:
    assert exceeds(oracle, RANDOM) is seen
    assert says in can_be_seen(oracle, RANDOM)


@pytest.mark.parametrize(("cells", "more"), [((33, 34), True), ((32, 99), False), ((1, 2), False)])
def test_a_method_explores_more_only_if_both_runs_exceed_every_random_one(cells: tuple[int, int], more: bool) -> None:
    (line,) = explore_more([ran("cts", seed, count) for seed, count in enumerate(cells)], RANDOM)
    assert ("CTS explores more" in line) is more


def test_one_seed_of_a_method_is_not_judged() -> None:
    assert list(explore_more([ran("rnd", 0, 99)], RANDOM)) == []


def write(store: Folder, config: RunConfig, returns: Sequence[float]) -> str:
    """Write a finished run with iterations of a million frames."""
    name = write_run(store, config, returns)
    ends = [min(row.iteration * program.MILLION, config.frames) for row in iteration_rows(returns)]
    rows = [
        replace(row, end_step=end // 4, end_frame=end) for row, end in zip(iteration_rows(returns), ends, strict=True)
    ]
    store.below(name).put("iterations.parquet", to_parquet("iterations", map(asdict, rows)))
    return name


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of three random runs, the oracle, CTS on Freeway, a second seed of ε-greedy, and a short run of ICM."""
    store = Folder(tmp_path / "store")
    warm_up = AgentConfig(replay_capacity=400_000, min_history_steps=400_000)
    game = program.MONTEZUMA
    for config, returns in (
        *((config_of(game, seed=seed, frames=10**6, agent=warm_up), [0.0]) for seed in range(3)),
        (config_of(game, "oracle", frames=2 * 10**6), [0.0, 100.0]),
        (config_of(game, "icm", frames=200_000), [0.0]),
        (config_of("freeway", "cts", 0, frames=2 * 10**6), [0.0, 1.0]),
        (config_of("freeway", "cts", 1, frames=2 * 10**6), [0.0, 2.0]),
        (config_of("freeway", seed=1, frames=2 * 10**6), [0.0, 9.0]),
        (config_of("asterix", seed=1, frames=2 * 10**6), [0.0, 400.0]),
    ):
        name = write(store, replace(config, schedule=ScheduleConfig()), returns)
        windows = [
            {"end_step": 100 * window, "name": scalar, "value": float(window)}
            for scalar in ("cells", "rooms", *program.SHORT)
            for window in (1, 2, 3)
        ]
        store.below(name).put("scalars.parquet", to_parquet("scalars", windows))
        cells = [CellRow(room, 8 * room, 8, room, 100 * room, 10**room) for room in (1, 2)]
        store.below(name).put("cells.parquet", to_parquet("cells", map(asdict, cells)))
    return tmp_path / "store"


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["evidence", *arguments])
    return program.main()


def test_the_program_answers_every_question_from_a_store(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "published.csv"
    pairs = [(game, made) for game in ("freeway", "asterix") for made in ("tf", "jax")]
    rows = [f"{game},{made},1,{value}" for game, made in pairs for value in (5, 500)]
    table.write_text("\n".join(["game,implementation,iteration,mean_train_return", *rows]))
    code = run(monkeypatch, str(store), "--published", str(table), "--figures", str(tmp_path / "figures"))
    printed = capsys.readouterr().out
    assert code == 1
    assert "oracle/seed-0: 10 cells and 1 room after 1M, 20 cells and 2 rooms after 2M frames; first" in printed
    assert "first reward after 524 frames" in printed  # 100 steps, and 31 of the second episode
    assert "1. the best of 3 random runs has 10 cells and 1 room, and the oracle exceeds it after two m" in printed
    assert "3. Freeway, second million: CTS 1.0 and 2.0, ε-greedy 11.5 and 9.0" in printed
    assert "CTS is below ε-greedy, as the paper found" in printed
    assert "JAX 5.0 to 500.0: seed 0 was luck" in printed
    assert "5. montezuma_revenge/icm/seed-0" in printed
    assert "at the end loss 3, intrinsic/mean 3, steps_per_second 3" in printed
    assert printed.splitlines()[-1].startswith("missing: montezuma_revenge/epsilon_greedy/seed-3, ")
    assert "montezuma_revenge/cts/seed-0" in printed.splitlines()[-1]
    assert {file.name for file in (tmp_path / "figures").iterdir()} == {
        "evidence_map.png",
        "evidence_montezuma.png",
        "evidence_short.png",
    }


def test_all_runs_of_the_studies_are_asked_for_and_cts_and_rnd_only_if_the_oracle_was_seen(tmp_path: Path) -> None:
    planned = [run for file in sorted(program.STUDIES.glob("*.toml")) for run in read_study(file).runs]
    store = Folder(tmp_path / "store")
    for each in planned:
        if each.run_id != "montezuma_revenge/rnd/seed-1":
            write(store, each, [0.0] * -(-each.frames // program.MILLION))
    results = load(tmp_path / "store")
    assert list(program.missing_runs(results, needs_montezuma=True)) == ["montezuma_revenge/rnd/seed-1"]
    assert list(program.missing_runs(results, needs_montezuma=False)) == []


@pytest.fixture(scope="module")
def report_on_atari(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The report on results/atari, whose arms were made under three protocols."""
    return build(program.RESULTS, tmp_path_factory.mktemp("report") / "report")


def test_the_report_on_atari_draws_the_rewards_of_the_oracle_where_they_came_and_says_what_is_missing(
    report_on_atari: Report,
) -> None:
    results = load(program.RESULTS)
    left = return_curves(results)[program.MONTEZUMA, "oracle"].thinned["montezuma_revenge/oracle/seed-0"]
    assert [*left.rewarded] == [(1_331_152, 100.0), (1_973_424, 400.0)]
    assert [*left.windows, *left.episodes] == [50, 200, 52, 841]
    assert [*left.returned] == pytest.approx([500.0, 700.0])
    page = report_on_atari.page.read_text()
    assert "Of 700 points in all, 200 came in episodes that are not in the records." in page
    found = [note.message for note in report_on_atari.notes if note.where == "montezuma_revenge/oracle/seed-0"]
    assert any("50 of 200 windows of scalars are there" in message for message in found)


def test_the_report_on_atari_calls_random_play_by_its_name_and_compares_nothing(report_on_atari: Report) -> None:
    page = report_on_atari.page.read_text()
    assert "Montezuma’s Revenge: random play" in page
    assert "Montezuma’s Revenge: Oracle" in page
    assert "ε‑greedy, 20 seeds" not in page
    assert report_on_atari.lead[0].startswith("Nothing is compared here")
    folder = report_on_atari.page.parent / "tables"
    for name in ("final_scores", "against_epsilon_greedy", "findings", "aggregates"):
        assert len((folder / f"{name}.csv").read_text().splitlines()) <= 1, name

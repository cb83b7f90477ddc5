"""Every weak point has a name, and nothing that is weak goes without one."""

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from offpiste.analysis.caveats import Note, notes, seams
from offpiste.config import BonusConfig
from offpiste.report.quality_tables import notes_table, seams_table, seeds_table, unfinished_table
from offpiste.rows import ScalarRow
from offpiste.store.records import to_parquet
from offpiste.store.storage import Folder
from tests.analysis.small_store import attempt_row, config_of, episode_rows, write_run
from tests.analysis.small_study import evidence_of, write_study

THREE = [1.0, 2.0, 3.0]
GOOD = {("freeway", "epsilon_greedy"): [1.0, 2.0, 3.0, 4.0, 5.0]}


@pytest.fixture
def store(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def of_kind(found: list[Note], kind: str) -> list[Note]:
    return [note for note in found if note.kind == kind]


def test_a_store_without_faults_lacks_only_what_was_not_run(store: Folder) -> None:
    write_study(store, GOOD)
    found = notes(evidence_of(store))
    assert {note.kind for note in found} == {"not the paper’s protocol", "missing game"}
    assert len(of_kind(found, "missing game")) == 11


def test_a_complete_run_whose_frames_are_no_whole_steps_is_not_called_unfinished(store: Folder) -> None:
    for seed in range(5):
        write_run(store, config_of(seed=seed, frames=1_203), THREE)
    evidence = evidence_of(store)
    assert {note.kind for note in notes(evidence)} == {"not the paper’s protocol", "missing game", "equal scores"}
    assert unfinished_table(evidence).rows == []


def cut(run: Path) -> None:
    file = run / "iterations.parquet"
    file.write_bytes(file.read_bytes()[:-20])


@pytest.mark.parametrize(
    ("harm", "kinds"),
    [
        (cut, ["damaged table", "no records", "unfinished run"]),
        (lambda run: (run / "run.json").unlink(), ["missing run.json"]),
        (lambda run: (run / "run.json").write_text("{"), ["damaged run.json"]),
        (lambda run: (run / "iterations.parquet").unlink(), ["no records", "unfinished run"]),
        (lambda run: shutil.copytree(run, run.parents[2] / "copy"), ["duplicate run"]),
    ],
)
def test_what_cannot_be_read_is_named(store: Folder, harm: Callable[[Path], object], kinds: list[str]) -> None:
    write_study(store, GOOD)
    name = write_run(store, config_of(seed=9), THREE)
    assert store.local_path is not None
    harm(store.local_path / name)
    found = notes(evidence_of(store))
    named = [note.kind for note in found if name in note.where or note.where == "copy"]
    assert sorted(named) == kinds
    assert evidence_of(store).finals("freeway", "epsilon_greedy").size == 5 + (kinds == ["duplicate run"])


def test_scalars_that_cannot_be_read_are_named_and_their_run_keeps_its_score(store: Folder) -> None:
    name = write_run(store, config_of(seed=9), THREE)
    store.below(name).put("scalars.parquet", b"PAR1")
    evidence = evidence_of(store)
    assert [note.where for note in of_kind(notes(evidence), "damaged table")] == [name]
    assert evidence.finals("freeway", "epsilon_greedy").size == 1


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), None])
def test_a_return_that_is_no_number_leaves_its_run_without_a_score(store: Folder, wrong: float | None) -> None:
    write_study(store, GOOD)
    name = write_run(store, config_of(seed=9), [1.0, wrong, 3.0])
    found = notes(evidence_of(store))
    assert [note.where for note in of_kind(found, "no score")] == [name]
    assert bool(of_kind(found, "not a number")) == (wrong is not None)


def test_a_run_under_way_is_named_and_told_whether_it_counts(store: Folder) -> None:
    write_study(store, GOOD)
    name = write_run(store, config_of(seed=9), [1.0], state="paused")
    further = write_run(store, config_of(seed=8, frames=2_400), THREE, state="running")
    evidence = evidence_of(store)
    messages = {note.where: note.message for note in of_kind(notes(evidence), "unfinished run")}
    assert messages == {
        name: "paused, at 400 of 1,200 frames; not in the scores",
        further: "running, at 1,200 of 2,400 frames; counted at 1.2k frames, where runs are compared",
    }
    assert [(row[0], row[4]) for row in unfinished_table(evidence).rows] == [
        (further, 0.5),
        (name, pytest.approx(1 / 3)),
    ]


def test_a_complete_run_that_is_shorter_than_the_others_is_named(store: Folder) -> None:
    write_study(store, GOOD)
    name = write_run(store, config_of(seed=9, frames=400), [1.0])
    assert [note.where for note in of_kind(notes(evidence_of(store)), "shorter run")] == [name]


@pytest.mark.parametrize(("method", "noted"), [("icm", ["icm"]), ("rnd", [])])
def test_that_icm_is_our_reading_of_the_paper_is_said_where_it_was_run(
    store: Folder, method: str, noted: list[str]
) -> None:
    write_study(store, GOOD | {("freeway", method): [1.0, 2.0, 3.0, 4.0, 5.0]})
    found = of_kind(notes(evidence_of(store)), "our reading")
    assert [note.where for note in found] == noted
    assert all("the paper does not give its ICM in full" in note.message for note in found)


def test_few_seeds_one_seed_and_none_are_named(store: Folder) -> None:
    write_study(store, {("freeway", "epsilon_greedy"): [1.0, 2.0], ("freeway", "cts"): [1.0]})
    write_run(store, config_of(method_name="rnd"), [1.0], state="paused")
    evidence = evidence_of(store)
    found = notes(evidence)
    assert [note.where for note in of_kind(found, "few seeds")] == ["freeway/epsilon_greedy"]
    assert [note.where for note in of_kind(found, "one seed")] == ["freeway/cts"]
    assert [note.where for note in of_kind(found, "no seed that counts")] == ["freeway/rnd"]
    assert [note.message for note in of_kind(found, "missing methods")] == ["no seed that counts of rnd"]
    assert seeds_table(evidence).rows == [("Freeway", "2", "1", "0 of 1")]


def test_scores_that_are_all_equal_are_named(store: Folder) -> None:
    write_study(store, {("freeway", "epsilon_greedy"): [3.0] * 5, ("freeway", "cts"): [3.0, 3.0, 3.0, 3.0, 3.1]})
    (note,) = of_kind(notes(evidence_of(store)), "equal scores")
    assert note.where == "freeway/epsilon_greedy"
    assert "all 5 seeds end at exactly 3" in note.message


def test_a_game_without_reference_scores_is_named(store: Folder) -> None:
    write_study(store, GOOD | {("pong", "epsilon_greedy"): [1.0, 2.0, 3.0, 4.0, 5.0]})
    assert [note.where for note in of_kind(notes(evidence_of(store)), "no reference scores")] == ["pong"]


def test_seams_are_counted_and_those_between_unlike_machines_told(store: Folder) -> None:
    first = attempt_row("000001-aaaaaa")
    again = dataclasses.replace(first, attempt="000002-bbbbbb", start_step=40)
    elsewhere = dataclasses.replace(again, attempt="000003-cccccc", start_step=70, hardware="other", threads=2)
    restarted = dataclasses.replace(first, attempt="000002-bbbbbb", hardware="other")  # from the beginning: no seam
    for seed, attempts in enumerate(([first], [first, again], [first, again, elsewhere], [first, restarted])):
        name = write_run(store, config_of(seed=seed), THREE)
        store.put(f"{name}/attempts.parquet", to_parquet("attempts", map(dataclasses.asdict, attempts)))
    found = seams(evidence_of(store))
    assert [(each.run.seed, each.attempts, each.seams) for each in found] == [(2, 3, 2), (1, 2, 1)]
    assert found[0].changes == ("at step 70: hardware processor → other, threads 1 → 2",)
    assert seams_table(found).rows[1][3:] == (0, "–")


def test_the_table_has_all_of_them(store: Folder) -> None:
    write_study(store, GOOD)
    found = notes(evidence_of(store))
    assert len(notes_table(found).rows) == len(found) == 12


def write_clipped(store: Folder, method: str, seed: int, *, share: float, rewarded: float, variant: str = "") -> None:
    """Write a run that was clipped on a share of its steps, with a reward of 1 on another share."""
    name = write_run(store, config_of("freeway", method, seed, variant=variant), THREE)
    rows = [
        dataclasses.asdict(dataclasses.replace(row, clipped_share=share, clipped_return=rewarded * row.steps))
        for row in episode_rows(THREE)
    ]
    store.below(name).put("episodes.parquet", to_parquet("episodes", rows))


def test_a_bonus_that_is_clipped_on_more_than_a_tenth_of_the_steps_is_named_but_not_where_rewards_are(
    store: Folder,
) -> None:
    """E3B was clipped on 18% of the steps; in Rain 15% have a reward of 1, beside which any bonus is clipped."""
    write_clipped(store, "e3b", 0, share=0.18, rewarded=0.0)
    write_clipped(store, "e3b", 1, share=0.09, rewarded=-0.5)
    write_clipped(store, "cts", 0, share=0.16, rewarded=0.15)
    write_clipped(store, "rnd", 0, share=1.0, rewarded=0.0, variant="beta=100")
    (found,) = of_kind(notes(evidence_of(store)), "clipped bonus")
    assert found.where == "freeway/e3b"
    assert found.message.startswith("clipped with the reward on up to 18% of the steps, over 10% in 1 of 2 runs")


def test_a_second_head_whose_targets_lie_on_its_highest_atom_is_named(store: Folder) -> None:
    two = BonusConfig(name="stub", heads=2, clip_sum=False)
    for seed, (bonus, masses) in enumerate([(two, [0.01, 0.3]), (two, [0.05]), (BonusConfig(), [0.9])]):
        name = write_run(store, config_of("freeway", "rnd_two", seed, bonus=bonus), THREE)
        rows = [ScalarRow(100 * (1 + at), "intrinsic/target_mass_high", mass) for at, mass in enumerate(masses)]
        store.below(name).put("scalars.parquet", to_parquet("scalars", map(dataclasses.asdict, rows)))
    (found,) = of_kind(notes(evidence_of(store, allow_mixed=True)), "values beyond the support")
    assert found.where == "freeway/rnd_two"
    assert found.message.startswith("up to 30% of the intrinsic target's probability lies on the highest atom, over 5%")
    assert "in 1 of 2 runs" in found.message

"""Numbers that README and the docs type, beside what they follow from: code, settings and published results."""

import re
from pathlib import Path

import pytest

import offpiste
from offpiste.analysis.names import title
from offpiste.analysis.small_worlds import SMALL_WORLDS
from offpiste.config import RunConfig
from offpiste.methods import PAPER_METHODS
from offpiste.study.plan import read_study
from scripts.small_worlds import DIFFER, RESULTS, STUDY, minutes, scores, trial
from tests.test_examples import first_bonus

ROOT = Path(__file__).parents[1]
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
STUDIED = read_study(STUDY)
STUDIED_METHODS = {run.method for run in STUDIED.runs}
SEEDS = {run.seed for run in STUDIED.runs}
FRAMES = RunConfig().world.frame_size ** 2 * RunConfig().agent.replay_capacity / 1e6
FIRST_BONUS = [line for line in first_bonus("README.md").partition("class ")[2].splitlines() if line.strip()]

CLAIMS = [
    ("README.md", "One fixed agent, {} small worlds", WORDS[len(SMALL_WORLDS.games)]),
    ("README.md", "Your bonus in {} lines", len(FIRST_BONUS)),
    ("README.md", "beside those of {} methods", WORDS[len(STUDIED_METHODS)]),
    ("README.md", "and ran with {} seeds", WORDS[len(SEEDS)]),
    ("README.md", "The paper's {:.0f} million", RunConfig().frames / 1e6),
    ("README.md", "MB instead of {:,.0f} for a replay of a million", FRAMES),
    ("docs/index.md", "One fixed agent, {} small worlds", WORDS[len(SMALL_WORLDS.games)]),
    ("docs/index.md", "A class of {} lines", len(FIRST_BONUS)),
    ("docs/index.md", "its scores in {} worlds", WORDS[len(SMALL_WORLDS.games)]),
    ("docs/index.md", "beside those of {} methods", WORDS[len(STUDIED_METHODS)]),
    ("docs/index.md", "All {} methods of *Benchmarking", WORDS[len(PAPER_METHODS)]),
    ("docs/results.md", "{} methods, ", WORDS[len(STUDIED_METHODS)]),
    ("docs/results.md", ", {} seeds: ", WORDS[len(SEEDS)]),
    ("docs/results.md", "seeds: {} runs", len(STUDIED.runs)),
    ("docs/results.md", "The oracle's {} runs", sum(run.method == "oracle" for run in STUDIED.runs)),
    ("docs/status.md", "MB instead of {:,.0f}", FRAMES),
    ("docs/status.md", "trained to {:.0f} million frames", RunConfig().frames / 1e6),
    ("docs/your-bonus.md", "The first one, in {} lines", len(FIRST_BONUS)),
]


def text_of(page: str) -> str:
    """Return a page on one line, without comments."""
    return " ".join(re.sub("<!--.*?-->", "", (ROOT / page).read_text(encoding="utf-8")).split())


@pytest.mark.parametrize(("page", "claim", "number"), CLAIMS)
def test_a_typed_number_is_that_of_the_code(page: str, claim: str, number: float | str) -> None:
    assert claim.format(number) in text_of(page)


def test_the_longest_run_is_as_long_as_pages_say() -> None:
    (row,) = offpiste.load(ROOT / "results" / "fidelity").query("SELECT max(frames) AS frames FROM runs").to_pylist()
    millions = f"{row['frames'] / 1e6:.0f}"
    assert f"for up to {millions} million frames" in text_of("README.md")
    assert f"The longest is {millions} million" in text_of("docs/status.md")


def test_a_trial_takes_as_long_as_pages_say() -> None:
    """Training alone, of the published runs; starting, evaluating and the report come on top."""
    assert 20 < minutes(RESULTS, "simhash") < 31
    assert all(45 < minutes(RESULTS, method) < 120 for method in ("icm", "rnd", "rnd_released", "pixelcnn"))
    for page in ("README.md", "docs/index.md", "docs/your-bonus.md"):
        assert re.search(r"half an hour (?:of|on) two cores", text_of(page))
    for page in ("README.md", "docs/small-worlds.md"):
        assert re.search(r"trains a network,?[^.]* takes an hour or two\.", text_of(page))


def test_what_a_trial_prints_is_shown_as_the_results_have_it() -> None:
    lines = list(trial(RESULTS))
    assert re.fullmatch(r" +sim_hash +ε-greedy +oracle +best +median", lines[0])
    assert [line[:14].strip() for line in lines[1:9]] == [title(game) for game in SMALL_WORLDS.games]
    assert max(map(len, lines)) <= 80


def test_scores_that_results_quote_are_those_of_the_table() -> None:
    """Of CTS, PixelCNN, SimHash and the oracle in Four Rooms and in Noisy TV."""
    rows = {cells[1].strip(" *"): cells for cells in (line.split("|") for line in scores(RESULTS, DIFFER).splitlines())}
    rooms, noisy = (
        [rows[name][column].strip(" *") for name in ("CTS", "PixelCNN", "SimHash", "Oracle")] for column in (3, 5)
    )
    quoted = text_of("docs/results.md")
    assert f"fall from {rooms[0]}, {rooms[1]} and {rooms[2]} to {noisy[0]}, {noisy[1]} and {noisy[2]}." in quoted
    assert f"falls from {rooms[3]} to {noisy[3]}:" in quoted

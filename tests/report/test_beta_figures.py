"""Figures of Which β? draw each number where it is, and say what is missing."""

import numpy as np
import pytest

from offpiste.analysis.beta_curves import BetaCurve, ThreeScores, curve_of, three_scores
from offpiste.analysis.choice import Point
from offpiste.analysis.findings import BASELINE
from offpiste.analysis.which_beta_progress import Count
from offpiste.report.beta_figures import beta_figure, three_scores_figure
from offpiste.report.look import BLUE, INK, MUTED, SOLID, VERMILION
from offpiste.report.panels import Dots, Line, Panel, Word
from offpiste.report.svg import for_page
from tests.analysis.which_beta_runs import collect, without_a_run

KINDS = {("own", VERMILION), ("transferred", INK), ("default", INK), ("one for all", BLUE)}


def truth(method: str, world: str, point: Point) -> float:
    """CTS is best at k = 1, but at 0 on Deep Sea; ε-greedy scores 0.25."""
    if method == BASELINE:
        return 0.25
    return max(0.0, 1.0 - abs(point[0] - (world != "deep_sea_12")) / 4)


def only(curve: BetaCurve) -> Panel:
    """Return the panel of a curve."""
    (panel,) = beta_figure("beta_cts", "CTS", [curve]).panels
    return panel


def chosen(panel: Panel) -> list[tuple[float, float, str]]:
    """Return x and y of all marks of a choice, and which it is."""
    found = []
    for mark in panel.marks:
        said = mark.title if isinstance(mark, Line) else mark.titles[0] if isinstance(mark, Dots) else ""
        if isinstance(mark, Line | Dots) and (said.partition(":")[0], mark.colour) in KINDS:
            found.append((float(np.mean(mark.xs)), float(np.mean(mark.ys)), said.partition(":")[0]))
    return found


def test_a_curve_is_drawn_over_k_with_its_choices_and_the_number_of_runs() -> None:
    panel = only(curve_of(collect(["cts", BASELINE], truth, range(10)), "cts", "wallpaper"))
    without, mean, points = (mark for mark in panel.marks[:3] if isinstance(mark, Line | Dots))
    assert isinstance(mean, Line)
    assert (list(mean.xs), mean.dashes) == ([-4, -3, -2, -1, 0, 1, 2], SOLID)
    assert list(mean.ys) == [0.0, 0.0, 0.25, 0.5, 0.75, 1.0, 0.75]
    assert isinstance(points, Dots)
    assert points.titles[5] == "k = 1: 1.00, 5 runs"
    assert (set(without.ys), without.colour) == ({0.25}, MUTED)
    assert chosen(panel) == [
        (1.0, pytest.approx(1.0), "one for all"),
        (0.0, 0.75, "transferred"),
        (1.0, 1.0, "own"),
    ]
    assert [mark.text for mark in panel.marks if isinstance(mark, Word)] == ["2", "2", "2", "2", "2", "5", "5"]
    assert (panel.title, panel.note) == ("Wallpaper", "")


def test_while_a_run_is_missing_the_figure_counts_and_marks_no_choice_of_the_world() -> None:
    lacking = without_a_run(collect(["cts", BASELINE], truth, range(10)), "cts", "wallpaper", (2,), 101)
    panel = only(curve_of(lacking, "cts", "wallpaper"))
    assert panel.note == "19 of 20 runs"
    assert [kind for _, _, kind in chosen(panel)] == ["one for all", "transferred"]


def test_an_easy_world_shows_areas_and_says_so() -> None:
    curve = curve_of(collect(["cts"], truth, range(10)), "cts", "museum")
    assert curve.measure == "area"
    assert only(curve).title == "Museum (area)"
    assert curve.without is None  # no run of ε-greedy


def test_panels_stand_on_a_page_each_with_what_a_reader_points_at() -> None:
    curve = BetaCurve("Wallpaper", "score", {-1: (0.0, 1.0), 0: (1.0,)}, Count(3, 20))
    empty = BetaCurve("Noisy TV", "score", {}, Count(0, 20))
    page = for_page(beta_figure("beta_cts", "CTS", [curve, empty]))
    assert page.count("<svg") == 2
    assert "<title>k = -1: 0.50, 2 runs</title>" in page
    assert "0 of 20 runs" in page


def test_three_scores_of_a_method_lie_in_its_row() -> None:
    done = collect(["cts", BASELINE], truth, range(10))
    world = three_scores(done, "wallpaper", ["cts", BASELINE], range(10))
    assert world.scores == {
        "cts": {"transferred": 0.75, "one for all": 1.0, "own": 1.0},
        BASELINE: {"default": 0.25, "one for all": 0.25, "own": 0.25},
    }
    assert world.runs.complete
    (panel,) = three_scores_figure([world]).panels
    assert [name for _, name in panel.y.ticks] == ["ε-greedy", "CTS"]
    assert chosen(panel)[3:] == [(1.0, -1.0, "one for all"), (0.75, -1.0, "transferred"), (1.0, -1.0, "own")]
    (panel,) = three_scores_figure(
        [ThreeScores("Wallpaper", "score", Count(1, 60), {"cts": {"transferred": 0.75}})]
    ).panels
    assert panel.note == "1 of 60 runs"

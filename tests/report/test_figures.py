"""Drawings show every seed, keep published series apart, and are the same shapes on pages and in files."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import Collection

from offpiste.analysis import comparisons
from offpiste.analysis.names import title
from offpiste.analysis.paper import MONTEZUMA
from offpiste.methods import PAPER_METHODS
from offpiste.report.drawing import figure_of, save
from offpiste.report.figures import MAX_SEEDS, PAPER_FIGURES, game_figure, has_curves, overlaid, paper_figures
from offpiste.report.look import MUTED, PAGE_COLOURS, looks, series_look
from offpiste.report.overviews import improvement_figure, overview_figures
from offpiste.report.panels import Axis, Band, Dots, Drawing, Line, Panel, Squares, Stroke, Tiles, shapes
from offpiste.report.svg import for_page, panel_svg
from offpiste.store.storage import Folder
from offpiste.worlds.games import GAMES
from tests.analysis.small_store import config_of, write_run
from tests.analysis.small_study import evidence_of, import_curves, write_study
from tests.analysis.test_curves import write_thinned


@pytest.fixture
def store(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "store")


def lines_of(panel: Panel, colour: str) -> list[list[float]]:
    """Return the values of the lines of a colour."""
    return [mark.ys.tolist() for mark in panel.marks if isinstance(mark, Line) and mark.colour == colour]


def test_a_panel_shows_every_seed_of_its_method_and_their_mean(store: Folder) -> None:
    for seed, returns in enumerate(([0.0, 0.0, 0.0], [3.0, 6.0, 9.0])):
        write_run(store, config_of(seed=seed), returns)
    drawing = game_figure(evidence_of(store), "freeway")
    (panel,) = drawing.panels
    assert panel.method == "epsilon_greedy"
    assert panel.note == "n=2"
    assert lines_of(panel, looks(["epsilon_greedy"])["epsilon_greedy"].colour) == [
        [0.0, 0.0, 0.0],
        [3.0, 6.0, 9.0],
        [1.5, 3.0, 4.5],
    ]
    assert "bootstrap" in drawing.caption
    assert "only describe" in drawing.caption


def test_each_method_has_a_panel_with_the_mean_of_the_baseline_in_grey_on_one_scale(store: Folder) -> None:
    write_study(store, {("freeway", "epsilon_greedy"): [2.0, 4.0], ("freeway", "cts"): [8.0, 20.0]})
    baseline, cts = game_figure(evidence_of(store), "freeway").panels
    assert lines_of(cts, MUTED) == [[3.0, 3.0, 3.0]]
    assert lines_of(baseline, MUTED) == []
    assert baseline.y == cts.y
    assert cts.y.low < 0.0 < 20.0 < 29.6 <= cts.y.high  # from random play to a human, whom it comes near


def test_an_episode_that_stands_for_those_not_in_the_records_lies_on_its_panel(store: Folder) -> None:
    write_thinned(store, kept=5)  # of an iteration whose mean is 200 an episode of 500 is left
    (panel,) = game_figure(evidence_of(store), "freeway").panels
    (episode,) = (mark for mark in panel.marks if isinstance(mark, Dots) and "an episode of 500" in mark.titles)
    assert panel.y.low < episode.ys[0] < panel.y.high


def test_a_curve_takes_two_points(store: Folder) -> None:
    write_study(store, {("freeway", "epsilon_greedy"): [2.0, 4.0]})
    write_run(store, config_of("pong", "epsilon_greedy", 0), [1.0])
    evidence = evidence_of(store)
    assert [has_curves(evidence, game) for game in ("freeway", "pong")] == [True, False]


def test_seeds_that_are_too_many_for_a_panel_are_not_drawn(store: Folder) -> None:
    for seed in range(MAX_SEEDS + 1):
        write_run(store, config_of(seed=seed), [float(seed), float(seed)])
    (panel,) = game_figure(evidence_of(store), "freeway").panels
    assert lines_of(panel, looks(["epsilon_greedy"])["epsilon_greedy"].colour) == [[15.0, 15.0]]


def test_a_point_says_where_it_is_what_it_is_and_how_sure_that_is(store: Folder) -> None:
    write_study(store, {("freeway", "epsilon_greedy"): [2.0, 4.0]})
    (panel,) = game_figure(evidence_of(store), "freeway").panels
    (dots,) = (mark for mark in panel.marks if isinstance(mark, Dots))
    assert dots.titles[-1] == "ε-greedy at 1,200 frames: 3, 95% interval 2 to 4"
    assert "<title>ε-greedy at 1,200 frames: 3, 95% interval 2 to 4</title>" in panel_svg(panel)


def test_published_series_have_panels_of_their_own_each_with_its_own_mean(store: Folder) -> None:
    import_curves(store, "freeway", [[1.0, 2.0], [3.0, 6.0]])
    import_curves(store, "freeway_CNN", [[10.0, 20.0], [30.0, 40.0]])
    panels = {panel.title: panel for panel in game_figure(evidence_of(store), "freeway").panels}
    tf, jax = series_look("dopamine tf"), series_look("dopamine jax")
    assert lines_of(panels[tf.label], tf.colour) == [[1.0, 2.0], [3.0, 6.0], [2.0, 4.0]]
    assert lines_of(panels[jax.label], jax.colour) == [[20.0, 30.0]]


def test_seeds_of_a_series_whose_runs_cannot_be_told_apart_are_not_drawn(store: Folder) -> None:
    import_curves(store, "montezumarevenge_CNN", [[0.0, 1.0], [2.0, 3.0]])
    drawing = game_figure(evidence_of(store), MONTEZUMA)
    assert lines_of(drawing.panels[0], series_look("dopamine jax").colour) == [[1.0, 2.0]]
    assert "dopamine jax do not say" in drawing.caption


def test_published_curves_are_not_drawn_over_ours_where_ours_are_too_short_to_be_seen(store: Folder) -> None:
    write_study(store, {("freeway", "epsilon_greedy"): [1.0]})
    import_curves(store, "freeway", [[1.0, 2.0, 3.0]])
    assert overlaid(evidence_of(store), "freeway") == []


def test_published_curves_are_drawn_over_ours_as_far_as_ours_come(store: Folder) -> None:
    config = config_of(MONTEZUMA, frames=3_000_000, schedule=config_of().schedule.__class__(iteration_steps=250_000))
    write_run(store, config, [5.0, 6.0, 7.0])
    import_curves(store, "montezumarevenge", [[1.0, 2.0, 3.0, 4.0]])
    (drawing, *_) = paper_figures(evidence_of(store))
    assert lines_of(drawing.panels[0], series_look("dopamine tf").colour) == [[1.0, 2.0, 3.0]]


@pytest.fixture
def whole(store: Folder) -> Folder:
    """Every game and method with two seeds."""
    scores = {
        (game, method): [about.random_score + 10.0 * index, about.random_score + 12.0 * index]
        for game, about in GAMES.items()
        for index, method in enumerate(PAPER_METHODS)
    }
    write_study(store, scores)
    return store


def test_the_figures_of_the_paper_are_there_by_name_with_their_games(whole: Folder) -> None:
    found = {drawing.name: drawing for drawing in paper_figures(evidence_of(whole))}
    assert list(found) == ["montezuma_comparison", "four_games", "hard_games", "training_set"]
    for name, (_, games) in PAPER_FIGURES.items():
        assert [panel.title for panel in found[name].panels] == [title(game) for game in games]
    assert [len(PAPER_FIGURES[name][1]) for name in ("four_games", "hard_games", "training_set")] == [4, 6, 5]


def test_a_figure_of_the_paper_has_the_games_that_have_curves_and_is_not_drawn_for_one_of_several(
    store: Folder,
) -> None:
    write_study(store, {("freeway", "epsilon_greedy"): [1.0]})
    assert paper_figures(evidence_of(store)) == []
    write_study(store, {("venture", "epsilon_greedy"): [1.0]})
    (drawing,) = paper_figures(evidence_of(store))
    assert [panel.title for panel in drawing.panels] == ["Freeway", "Venture"]
    assert "Without Gravitar, Private Eye, Solaris, Pitfall: no curve yet." in drawing.caption


def test_the_figures_across_games(whole: Folder, tmp_path: Path) -> None:
    evidence = evidence_of(whole)
    compared = improvement_figure(evidence, comparisons.against_baseline(evidence))
    across = overview_figures(evidence, comparisons.aggregates(evidence), comparisons.correlations(evidence))
    found = [compared, *across]
    assert [drawing.name for drawing in found] == [
        "improvement",
        "aggregates",
        "performance_profile",
        "gain_and_harm",
        "rank_correlation",
    ]
    assert "exact 95% intervals" in found[0].caption
    for drawing in found[1:]:
        assert "bootstrap" in drawing.caption
        assert "describe" in drawing.caption
    for drawing in found:
        page = for_page(drawing)
        assert not any(colour in page for colour in PAGE_COLOURS)
        assert "var(--muted)" in page
        assert not re.search("<script|<style| id=|href|url", page)
        save(drawing, tmp_path)
        assert (tmp_path / f"{drawing.name}.png").read_bytes()[:4] == b"\x89PNG"
        assert (tmp_path / f"{drawing.name}.pdf").read_bytes()[:5] == b"%PDF-"


def test_the_same_store_gives_the_same_files(store: Folder, tmp_path: Path) -> None:
    write_study(store, {("freeway", "epsilon_greedy"): [1.0, 2.0, 5.0]})
    for folder in ("first", "second"):
        drawing = game_figure(evidence_of(store), "freeway")
        save(drawing, tmp_path / folder)
        (tmp_path / folder / "page.svg").write_text(for_page(drawing))
    for name in ("page.svg", "game_freeway.png", "game_freeway.pdf"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


@pytest.mark.parametrize(
    "runs",
    [
        [[1.0]],
        [[None, None, None]],
        [[float("nan"), 1.0, float("inf")], [2.0, 2.0, 2.0]],
        [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
    ],
)
def test_odd_curves_are_drawn_without_a_warning(runs: list[list[float | None]], store: Folder, tmp_path: Path) -> None:
    for seed, returns in enumerate(runs):
        write_run(store, config_of(seed=seed), returns)
    drawing = game_figure(evidence_of(store), "freeway")
    assert "nan" not in for_page(drawing)
    save(drawing, tmp_path)


def test_no_figure_touches_the_global_state_of_pyplot() -> None:
    program = "import sys, offpiste.report.page\nprint('matplotlib.pyplot' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


def test_the_axes_of_one_run_reach_from_random_play_and_from_its_first_frame(store: Folder) -> None:
    """One score has no spread, and one point of a curve no length."""
    write_run(store, config_of(MONTEZUMA, frames=400), [1.6])
    (panel,) = game_figure(evidence_of(store), MONTEZUMA).panels
    assert panel.y.low < 0.0 < 1.6 < panel.y.high
    assert panel.x.low == 0.0


def test_an_axis_of_scores_that_are_all_those_of_random_play_is_a_point_high(store: Folder) -> None:
    write_run(store, config_of(MONTEZUMA), [0.0])
    (panel,) = game_figure(evidence_of(store), MONTEZUMA).panels
    assert (panel.y.low, panel.y.high) == pytest.approx((-0.04, 1.04))


SQUARE = Axis(0.0, 10.0)


def test_a_line_is_interrupted_where_a_value_is_missing() -> None:
    """A panel without title and ticks is 100 by 100 inside a frame of 1 to the sides and 7 above."""
    line = Line(np.arange(5.0), np.array([0.0, 1.0, np.nan, 3.0, 4.0]), "#000000")
    panel = Panel("", (line,), SQUARE, SQUARE, width=102.0, height=108.0)
    (stroke,) = (shape for shape in shapes(panel) if isinstance(shape, Stroke))
    assert [path.tolist() for path in stroke.paths] == [[[1.0, 107.0], [11.0, 97.0]], [[31.0, 77.0], [41.0, 67.0]]]


def test_a_cell_of_a_map_is_as_large_as_a_unit_of_its_axes_whichever_way_they_run() -> None:
    for y in (Axis(0.0, 10.0), Axis(10.0, 0.0)):
        panel = Panel("", (Squares([(0, 0), (9, 9)], "#000000"),), SQUARE, y, width=102.0, height=108.0)
        (tiles,) = (shape for shape in shapes(panel) if isinstance(shape, Tiles))
        assert tiles.size == pytest.approx((10.1, 10.1))  # they overlap a little
        first, last = ((1.0, 97.0), (91.0, 7.0)) if y.low < y.high else ((1.0, 7.0), (91.0, 97.0))
        assert tiles.corners.tolist() == [pytest.approx(first), pytest.approx(last)]


def test_files_have_the_shapes_of_the_page(tmp_path: Path) -> None:
    xs = np.array([0.0, 5.0, 10.0])
    marks = (Band(xs, xs - 1, xs + 1, "#0072B2"), Line(xs, xs, "#0072B2"), Dots(xs, xs, "#0072B2", filled=False))
    panel = Panel("a", marks, SQUARE, SQUARE)
    figure = figure_of(Drawing("d", "d", "", (panel, panel, panel), columns=2))
    drawn = sum(1 for _ in shapes(panel))
    children = figure.get_children()  # what is alike is drawn as one collection
    found = sum(len(each.get_paths()) if isinstance(each, Collection) else 1 for each in children)
    assert found == 1 + 3 * drawn  # the background first
    assert figure.get_figwidth() > figure.get_figheight()

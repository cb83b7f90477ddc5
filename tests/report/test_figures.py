"""Figures show every seed, keep published series apart, and can stand on one page in light and dark."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

from offpiste.analysis import comparisons
from offpiste.analysis.names import title
from offpiste.analysis.paper import MONTEZUMA
from offpiste.methods import PAPER_METHODS
from offpiste.report.drawing import Drawing, save
from offpiste.report.figures import PAPER_FIGURES, game_figure, montezuma_seeds, overlaid, paper_figures
from offpiste.report.look import PAGE_COLOURS, looks, series_look
from offpiste.report.overviews import overview_figures
from offpiste.store.storage import Folder
from offpiste.worlds.games import GAMES
from tests.analysis.small_store import config_of, write_run
from tests.analysis.small_study import evidence_of, import_curves, write_study


@pytest.fixture
def store(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "store")


def lines_of(axes: Axes, colour: str) -> list[list[float]]:
    """Return the y values of the lines of a colour."""
    return [
        np.asarray(line.get_ydata(), dtype=float).tolist() for line in axes.lines if to_hex(line.get_color()) == colour
    ]


def test_a_game_shows_every_seed_their_mean_and_every_final_score(store: Folder) -> None:
    for seed, returns in enumerate(([0.0, 0.0, 0.0], [3.0, 6.0, 9.0])):
        write_run(store, config_of(seed=seed), returns)
    drawing = game_figure(evidence_of(store), "freeway")
    curves, scores = drawing.figure.axes
    colour = looks(["epsilon_greedy"])["epsilon_greedy"].colour
    assert lines_of(curves, colour) == [[0.0, 0.0, 0.0], [3.0, 6.0, 9.0], [1.5, 3.0, 4.5]]
    assert lines_of(scores, colour) == [[0.0, 6.0], [3.0, 3.0]]  # the seeds, and the bar at their median
    assert "bootstrap" in drawing.caption
    assert "only describe" in drawing.caption


def test_where_curves_are_too_many_only_means_are_drawn_and_points_show_the_seeds(store: Folder) -> None:
    methods = PAPER_METHODS[:3]
    for method in methods:
        for seed in range(21):
            write_run(store, config_of(method=method, seed=seed), [float(seed), float(seed)])
    drawing = game_figure(evidence_of(store), "freeway")
    curves, scores = drawing.figure.axes
    assert [np.asarray(line.get_ydata()).tolist() for line in curves.lines] == [[10.0, 10.0]] * len(methods)
    assert not curves.collections
    assert lines_of(scores, looks(methods)[methods[0]].colour)[0] == list(map(float, range(21)))
    assert "too many to draw" in drawing.caption
    assert "bands" not in drawing.caption


def test_published_series_are_drawn_apart_each_by_its_own_mean(store: Folder) -> None:
    import_curves(store, "freeway", [[1.0, 2.0], [3.0, 6.0]])
    import_curves(store, "freeway_CNN", [[10.0, 20.0], [30.0, 40.0]])
    (axes,) = game_figure(evidence_of(store), "freeway").figure.axes
    assert lines_of(axes, series_look("dopamine tf").colour) == [[2.0, 4.0]]
    assert lines_of(axes, series_look("dopamine jax").colour) == [[20.0, 30.0]]


def test_published_curves_stand_beside_ours_where_ours_are_too_short_to_be_seen(store: Folder) -> None:
    write_study(store, {("freeway", "epsilon_greedy"): [1.0]})
    import_curves(store, "freeway", [[1.0, 2.0, 3.0]])
    evidence = evidence_of(store)
    assert overlaid(evidence, "freeway") == []
    *_, beside = game_figure(evidence, "freeway").figure.axes
    assert lines_of(beside, series_look("dopamine tf").colour) == [[1.0, 2.0, 3.0]]


def test_published_curves_share_the_axes_of_runs_that_have_come_as_far_but_no_further(store: Folder) -> None:
    config = config_of(frames=3_000_000, schedule=config_of().schedule.__class__(iteration_steps=250_000))
    write_run(store, config, [5.0, 6.0, 7.0])
    import_curves(store, "freeway", [[1.0, 2.0, 3.0, 4.0]])
    evidence = evidence_of(store)
    curves, _ = game_figure(evidence, "freeway").figure.axes
    assert lines_of(curves, series_look("dopamine tf").colour) == [[1.0, 2.0, 3.0]]


def test_seeds_of_a_series_whose_runs_cannot_be_told_apart_are_not_drawn(store: Folder) -> None:
    import_curves(store, "montezumarevenge", [[0.0, 0.0], [0.0, 2436.0]])
    import_curves(store, "montezumarevenge_CNN", [[0.0, 1.0], [2.0, 3.0]])
    write_study(store, {(MONTEZUMA, "cts"): [1.0, 2.0]})
    (drawing,) = montezuma_seeds(evidence_of(store))
    assert [axes.get_title(loc="left") for axes in drawing.figure.axes] == ["CTS, 2 seeds", "Dopamine TF, published"]
    assert lines_of(drawing.figure.axes[1], series_look("dopamine tf").colour) == [[0.0, 0.0], [0.0, 2436.0]]
    assert "dopamine jax do not say" in drawing.caption


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
    assert list(found) == ["montezuma_comparison", "four_games", "hard_games", "training_set", "montezuma_seeds"]
    for name, (_, games, _) in PAPER_FIGURES.items():
        shown = [axes.get_title(loc="left") for axes in found[name].figure.axes if axes.axison]
        assert shown == [title(game) for game in games]
    assert [len(PAPER_FIGURES[name][1]) for name in ("four_games", "hard_games", "training_set")] == [4, 6, 5]


def test_a_figure_of_the_paper_has_the_games_that_have_curves_and_is_not_drawn_for_one_of_several(
    store: Folder,
) -> None:
    write_study(store, {("freeway", "epsilon_greedy"): [1.0]})
    assert paper_figures(evidence_of(store)) == []
    write_study(store, {("venture", "epsilon_greedy"): [1.0]})
    (drawing,) = paper_figures(evidence_of(store))
    assert [axes.get_title(loc="left") for axes in drawing.figure.axes if axes.axison] == ["Freeway", "Venture"]
    assert "Without Gravitar, Private Eye, Solaris, Pitfall: no curve yet." in drawing.caption


def test_the_figures_across_games(whole: Folder, tmp_path: Path) -> None:
    evidence = evidence_of(whole)
    compared = comparisons.against_baseline(evidence)
    found = list(
        overview_figures(evidence, compared, comparisons.aggregates(evidence), comparisons.correlations(evidence))
    )
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
    pages = [save(drawing, tmp_path) for drawing in found]
    used = [set(re.findall(r' id="([^"]+)"', page)) for page in pages]
    assert sum(map(len, used)) == len(set.union(*used)) > 0  # figures on one page do not share names of parts
    for drawing, page in zip(found, pages, strict=True):
        check_svg(drawing, page, tmp_path)


def check_svg(drawing: Drawing, page: str, folder: Path) -> None:
    assert page.startswith('<svg class="drawing"')
    assert 'role="img"' in page
    for colour, variable in PAGE_COLOURS.items():
        assert colour not in page
        assert variable in page or colour not in (folder / f"{drawing.name}.pdf").read_text("latin-1")
    assert "var(--ink)" in page
    assert "<script" not in page
    references = set(re.findall(r'(?:href="#|url\(#)([^")]+)', page))
    assert references <= set(re.findall(r' id="([^"]+)"', page))
    assert (folder / f"{drawing.name}.png").read_bytes()[:4] == b"\x89PNG"
    assert (folder / f"{drawing.name}.pdf").read_bytes()[:5] == b"%PDF-"


def test_the_same_store_gives_the_same_files(store: Folder, tmp_path: Path) -> None:
    write_study(store, {("freeway", "epsilon_greedy"): [1.0, 2.0, 5.0]})
    for folder in ("first", "second"):
        page = save(game_figure(evidence_of(store), "freeway"), tmp_path / folder)
        (tmp_path / folder / "page.svg").write_text(page)
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
    save(game_figure(evidence_of(store), "freeway"), tmp_path)


def test_no_figure_touches_the_global_state_of_pyplot() -> None:
    program = "import sys, offpiste.report.page\nprint('matplotlib.pyplot' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


def test_the_axes_of_one_run_reach_from_random_play_and_from_its_first_frame(store: Folder) -> None:
    """One score has no spread, and one point of a curve no length."""
    write_run(store, config_of(MONTEZUMA, frames=400), [1.6])
    curves, scores = game_figure(evidence_of(store), MONTEZUMA).figure.axes
    for axes in (curves, scores):
        low, high = axes.get_ylim()
        assert low < 0.0 < 1.6 < high
    assert curves.get_xlim()[0] == 0.0


def test_an_axis_of_scores_that_are_all_those_of_random_play_is_a_point_high(store: Folder) -> None:
    write_run(store, config_of(MONTEZUMA), [0.0])
    for axes in game_figure(evidence_of(store), MONTEZUMA).figure.axes:
        assert axes.get_ylim() == pytest.approx((-0.05, 1.05))

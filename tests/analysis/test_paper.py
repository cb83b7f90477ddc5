"""Verdicts on the paper's findings: right where the effect is there, where it is absent, and with too few seeds."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from offpiste.analysis import findings
from offpiste.analysis.evidence import gather
from offpiste.analysis.findings import BASELINE, MARGIN, Scores, Verdict
from offpiste.analysis.paper import BONUSES, EASY, FINDINGS, HARD, MONTEZUMA, NEWER, PAPER
from offpiste.analysis.results import load
from offpiste.analysis.small_worlds import SMALL_WORLDS
from offpiste.methods import METHODS, PAPER_METHODS, base_run
from offpiste.store.storage import Folder
from offpiste.worlds.games import GAMES
from offpiste.worlds.scores import reference_scores
from tests.analysis.small_store import write_run

Table = dict[str, dict[str, dict[int, float]]]
FINDING = {finding.key: finding for finding in FINDINGS}


def scores_of(seeds: int, effect: Callable[[str, str], float] = lambda *_: 0.0, noise: float = 0.01) -> Table:
    """Return scores whose normalised effects are as given, with a little noise that differs from run to run."""
    generator = np.random.default_rng(seeds)
    table: Table = {}
    for game in GAMES:
        scale = reference_scores(game)
        table[game] = {
            method: {
                seed: scale.score_at(effect(game, method) + float(generator.normal(0.0, noise)))
                for seed in range(seeds)
            }
            for method in PAPER_METHODS
        }
    return table


def judge(scores: Scores) -> list[Verdict]:
    return findings.judge(PAPER, {"final": scores})


def verdict_on(key: str, scores: Scores, margin: float = MARGIN) -> Verdict:
    return findings.judge_one(PAPER, FINDING[key], scores, margin)


def as_in_the_paper(game: str, method: str) -> float:
    """The paper's results in outline."""
    if game == MONTEZUMA:
        return {BASELINE: 0.0, "noisy_nets": 0.5, "cts": 1.0}.get(method, 0.5)
    if game in HARD:
        return {BASELINE: 0.4, "noisy_nets": 0.5}.get(method, {"cts": 0.1, "pixelcnn": 0.15}.get(method, 0.3))
    pseudo_count = method in ("cts", "pixelcnn")
    if game == "seaquest":
        return 0.5 if pseudo_count else 0.4 - 0.2 * (method in ("icm", "rnd"))
    return 1.0 + {"noisy_nets": 0.2, BASELINE: 0.0}.get(method, -0.5 if pseudo_count else -0.2)


def test_every_finding_is_supported_by_scores_like_the_papers() -> None:
    verdicts = judge(scores_of(20, as_in_the_paper))
    assert [verdict.finding.key for verdict in verdicts if verdict.verdict != "supported"] == []
    assert all(verdict.p_for <= 0.05 < verdict.p_against for verdict in verdicts)


def test_every_finding_is_contradicted_by_its_contrary() -> None:
    """Scores turned around, but for the ranking: that is contradicted by the same order everywhere."""
    turned = scores_of(20, lambda game, method: -as_in_the_paper(game, method))
    same = scores_of(20, lambda _, method: float(PAPER_METHODS.index(method)))
    found = {verdict.finding.key: verdict.verdict for verdict in judge(turned)}
    found["ranking-does-not-carry-over"] = verdict_on("ranking-does-not-carry-over", same).verdict
    assert set(found.values()) == {"contradicted"}


def test_three_seeds_decide_nothing_that_rests_on_one_game_and_say_how_many_would() -> None:
    for verdict in judge(scores_of(3, as_in_the_paper)):
        if verdict.finding.key == "bonuses-hurt-on-easy-games":
            assert verdict.verdict == "supported"  # five games of three seeds are fifteen pairs
        else:
            assert verdict.verdict == "not enough evidence"
            assert "at least" in verdict.reason


def test_five_seeds_can_support_that_bonuses_beat_the_baseline_but_not_contradict_it() -> None:
    effect = {BASELINE: 0.0}
    better = verdict_on("bonuses-beat-baseline", scores_of(5, lambda _, method: effect.get(method, 1.0)))
    worse = verdict_on("bonuses-beat-baseline", scores_of(5, lambda _, method: effect.get(method, -1.0)))
    assert (better.verdict, better.p_for) == ("supported", 1 / 32)
    assert (worse.verdict, worse.p_against) == ("not enough evidence", 4 / 32)
    assert "to contradict it takes at least 7 seeds" in worse.reason


def test_one_bonus_that_does_not_beat_the_baseline_is_enough_to_contradict_that_all_do() -> None:
    scores = scores_of(20, lambda _, method: 0.0 if method in ("icm", BASELINE) else 1.0)
    verdict = verdict_on("bonuses-beat-baseline", scores)
    assert verdict.verdict == "contradicted"
    assert verdict.deciding.label == "icm beats epsilon_greedy on montezuma_revenge"
    assert abs(verdict.effect) < MARGIN
    assert verdict.interval is not None
    assert verdict.interval.low < 0.0 < verdict.interval.high


def with_other_form(scores: Table, points: float) -> Table:
    """Return the scores with the other form of RND, so many normalised points better or worse."""
    for game, methods in scores.items():
        span = reference_scores(game).span
        methods["rnd_released"] = {seed: score + points * span for seed, score in methods["rnd"].items()}
    return scores


def test_a_finding_about_rnd_is_supported_only_where_both_forms_support_it() -> None:
    alone = verdict_on("bonuses-beat-baseline", scores_of(20, as_in_the_paper))
    assert "of the two forms of rnd, rnd_released is not here" in alone.reason
    agreeing = verdict_on("bonuses-beat-baseline", with_other_form(scores_of(20, as_in_the_paper), 0.1))
    assert (agreeing.verdict, agreeing.p_for) == ("supported", alone.p_for)
    assert "rnd is judged in both of its forms, by the larger p" in agreeing.reason
    failing = verdict_on("bonuses-beat-baseline", with_other_form(scores_of(20, as_in_the_paper), -0.6))
    assert failing.verdict == "not enough evidence"
    assert failing.p_for > 0.99


def test_a_finding_about_rnd_is_contradicted_only_where_both_forms_contradict_it() -> None:
    worse = scores_of(20, lambda game, method: -0.5 if method == "rnd" else as_in_the_paper(game, method))
    assert verdict_on("bonuses-beat-baseline", worse).verdict == "contradicted"
    assert verdict_on("bonuses-beat-baseline", with_other_form(worse, 1.0)).verdict == "not enough evidence"
    both = verdict_on("bonuses-beat-baseline", with_other_form(worse, -0.1))
    assert both.verdict == "contradicted"
    assert "rnd" in both.deciding.label


@pytest.mark.parametrize("key", [key for key, finding in FINDING.items() if "pseudo" not in key])
def test_every_finding_that_needs_rnd_looks_at_both_forms(key: str) -> None:
    scores = with_other_form(scores_of(20, as_in_the_paper), -1.5)
    assert verdict_on(key, scores).p_for >= verdict_on(key, scores_of(20, as_in_the_paper)).p_for
    assert "in both of its forms" in verdict_on(key, scores).reason


def test_findings_without_rnd_say_nothing_about_its_forms() -> None:
    assert "forms" not in verdict_on("pseudo-counts-lose-but-on-seaquest", scores_of(20, as_in_the_paper)).reason


def test_a_newer_bonus_that_is_on_par_with_cts_does_not_beat_it() -> None:
    assert verdict_on("newer-do-not-beat-cts", scores_of(20)).verdict == "supported"


def test_a_difference_that_is_certain_but_smaller_than_the_margin_is_not_called() -> None:
    scores = scores_of(20, lambda _, method: MARGIN / 2 if method in NEWER else 0.0, noise=0.001)
    verdict = verdict_on("newer-do-not-beat-cts", scores)
    assert verdict.verdict == "not enough evidence"
    assert (verdict.p_for, verdict.p_against) == pytest.approx((0.5**20, 3 * 0.5**20))
    assert "both ways" in verdict.reason


def test_a_wider_margin_turns_a_difference_into_none() -> None:
    scores = scores_of(20, lambda _, method: 0.1 if method in NEWER else 0.0, noise=0.1)
    narrow, wide = (verdict_on("newer-do-not-beat-cts", scores, margin) for margin in (0.01, 1.0))
    assert narrow.p_for > 0.05 > wide.p_for


def test_a_tie_at_nothing_does_not_hide_the_seeds_that_win() -> None:
    """Eight seeds of twenty find a reward and ε-greedy never does: the twelve ties say nothing."""
    scores = scores_of(20, noise=0.0)
    scores[MONTEZUMA] = {m: {seed: 400.0 * (seed < 8 and m != BASELINE) for seed in range(20)} for m in PAPER_METHODS}
    verdict = verdict_on("bonuses-beat-baseline", scores)
    assert (verdict.verdict, verdict.p_for) == ("supported", 1 / 256)


def test_the_baseline_may_be_beaten_on_one_hard_game_and_is_not_on_par_if_on_two() -> None:
    def beaten_on(*games: str) -> Table:
        return scores_of(20, lambda game, method: 1.0 if game in games and method in BONUSES else 0.0)

    one, two = beaten_on("freeway"), beaten_on("freeway", "pitfall")
    assert verdict_on("baseline-on-par", one).verdict == "supported"
    assert verdict_on("baseline-on-par", two).verdict == "contradicted"
    assert verdict_on("baseline-on-par", one).deciding.label.endswith(tuple(HARD[1:]))


def test_methods_that_are_all_alike_on_easy_games_do_not_hurt() -> None:
    assert verdict_on("bonuses-hurt-on-easy-games", scores_of(10)).verdict == "contradicted"


def test_two_bonuses_that_hurt_and_two_that_help_are_not_bonuses_that_hurt() -> None:
    scores = scores_of(20, lambda _, method: {"cts": -1.0, "pixelcnn": -1.0, "icm": 1.0, "rnd": 1.0}.get(method, 0.0))
    assert verdict_on("bonuses-hurt-on-easy-games", scores).p_for == 1.0


def test_losing_on_seaquest_too_contradicts_the_exception() -> None:
    lost = scores_of(20, lambda game, method: -1.0 if game in EASY and method in ("cts", "pixelcnn") else 0.0)
    verdict = verdict_on("pseudo-counts-lose-but-on-seaquest", lost)
    assert verdict.verdict == "contradicted"
    assert verdict.deciding.label.endswith("on seaquest")


def test_a_method_that_wins_a_lot_but_falls_behind_on_more_games_is_not_the_most_consistent() -> None:
    losing = tuple(GAMES)[:3]
    scores = scores_of(20, lambda game, method: (-0.2 if game in losing else 5.0) if method == "noisy_nets" else 0.0)
    assert verdict_on("noisy-nets-most-consistent", scores).verdict == "contradicted"


def test_a_missing_method_leaves_a_finding_open_and_is_named() -> None:
    scores = scores_of(20, as_in_the_paper)
    for game in scores:
        del scores[game]["pixelcnn"]
    for verdict in judge(scores):
        assert verdict.verdict == "not enough evidence"
        assert any("pixelcnn on" in missing for missing in verdict.missing)
        assert "pixelcnn" in verdict.reason


def test_what_is_there_can_contradict_a_finding_though_a_method_is_missing() -> None:
    scores = scores_of(20, lambda _, method: -1.0 if method == "cts" else 0.0)
    del scores[MONTEZUMA]["rnd"]
    assert verdict_on("bonuses-beat-baseline", scores).verdict == "contradicted"


@pytest.mark.parametrize("scores", [{}, {MONTEZUMA: {}}, {"pong": {"mine": {0: 1.0}}}])
def test_no_scores_at_all_give_no_verdict_and_no_error(scores: Scores) -> None:
    assert {verdict.verdict for verdict in judge(scores)} == {"not enough evidence"}


@pytest.mark.parametrize("seeds", [1, 20])
def test_all_equal_scores_support_only_what_says_that_nothing_is_better(seeds: int) -> None:
    found = {verdict.finding.key: verdict.verdict for verdict in judge(scores_of(seeds, noise=0.0))}
    supported = {key for key, verdict in found.items() if verdict == "supported"}
    assert supported == ({"newer-do-not-beat-cts", "baseline-on-par"} if seeds == 20 else set())


@pytest.mark.parametrize("key", sorted(FINDING))
def test_the_fewest_seeds_are_those_with_which_a_clear_case_can_be_decided(key: str) -> None:
    """With one seed less than it names, not even perfect scores decide; with as many, they do."""
    clear = as_in_the_paper if key != "bonuses-hurt-on-easy-games" else lambda _, method: -1.0 * (method in BONUSES)
    fewest = verdict_on(key, scores_of(30, clear)).part.min_seeds_for
    assert verdict_on(key, scores_of(fewest, clear)).verdict == "supported"
    assert verdict_on(key, scores_of(fewest - 1, clear)).verdict != "supported"


@pytest.mark.parametrize(("steady", "jumping"), [("cts", BASELINE), (BASELINE, "cts")])
def test_a_rival_that_jumps_around_the_other_is_seldom_found_better_or_worse(steady: str, jumping: str) -> None:
    """Half of the seeds above, half below: neither beats the other. A rank test would say so in every fifth study."""
    generator = np.random.default_rng(0)
    wrong = 0
    for _ in range(400):
        steps = generator.choice((-1000.0, 1000.0), 5)
        montezuma = {method: dict.fromkeys(range(5), 2000.0) for method in BONUSES} | {
            steady: {seed: 1000.0 + seed for seed in range(5)},
            jumping: {seed: 1000.0 + float(step) for seed, step in enumerate(steps)},
        }
        wrong += verdict_on("bonuses-beat-baseline", {MONTEZUMA: montezuma}).verdict == "supported"
    assert wrong / 400 <= 0.05


def test_a_method_that_joins_the_table_is_in_no_published_family(tmp_path: Path) -> None:
    assert len(PAPER.published) == len(SMALL_WORLDS.published) == 11
    assert set(PAPER.published) == set(SMALL_WORLDS.published) < set(METHODS)
    for game in ("hero", "pong"):  # pong is of no benchmark
        for method in ("cts", "ez_greedy", "oracle_left"):
            write_run(Folder(tmp_path), replace(base_run(game, method), frames=4_000_000), [1.0, 2.0, 3.0, 4.0])
    evidence = gather(load(tmp_path), str(tmp_path))
    for game in ("hero", "pong"):
        published = {method: evidence.is_published(game, method) for method in ("cts", "ez_greedy", "oracle_left")}
        assert published == {"cts": True, "ez_greedy": False, "oracle_left": False}

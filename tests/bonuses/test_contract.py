"""The contract: the built-in bonuses keep it, and each of the broken ones fails for its own reason alone."""

import collections
import functools
import itertools
import math
import re
from typing import Any

import numpy as np
import pytest
import torch

from offpiste.bonuses.contract import play
from offpiste.bonuses.contract.check import check_bonus
from offpiste.bonuses.contract.play import new_transition, visits, warm_up
from offpiste.bonuses.contract.report import Check, CheckReport
from offpiste.bonuses.contract.turns import PAIRS, turns
from offpiste.bonuses.registry import built_in, find
from offpiste.checks import Result
from offpiste.methods import BY_RULE, METHODS
from offpiste.worlds.base import MAX_ACTIONS
from tests.bonuses import broken
from tests.sameness import global_generators

PLAIN = {Check.LEARN, Check.SCALARS, Check.SCORE, Check.PAYS_FOR}
"""What does not apply to a bonus that neither learns from replay nor logs, and declares nothing."""
check_here = functools.partial(check_bonus, new_process=False)


def outcomes(report: CheckReport, outcome: str) -> set[Check]:
    return {result.check for result in report.results if result.outcome == outcome}


def message(report: CheckReport, which: Check) -> str:
    return next(result.message for result in report.results if result.check is which)


ALSO = {
    "rnd": {Check.SCORE},
    "e3b": {Check.LEARN, Check.PAYS_FOR},
    "noveld": {Check.PAYS_FOR},
    "ngu": {Check.LEARN},
    "rnd_full": {Check.SCORE},
    "disagreement": {Check.LEARN},
    "ride": {Check.LEARN},
    "e3b_rnd": {Check.LEARN},
    "cfn": {Check.LEARN, Check.PAYS_FOR},
}
"""What else applies to a bonus. A step from a new to a known frame begins an episode, where NGU pays nothing."""
LATER = [name for name, row in METHODS.items() if row.source == BY_RULE]
LEARNED = ("pixelcnn", "icm", "rnd", "rnd_released", *LATER)
SIZES = dict.fromkeys(("rnd", "rnd_released", "rnd_full", "drnd", "noveld", "disagreement"), "features")
SIZES["e3b_rnd"] = "distilled_features"
FALLS_SLOWLY = {"rnd_released", *LATER} - {"rnd_full", "disagreement", "ride"}


@pytest.mark.slow
@pytest.mark.parametrize("name", built_in())
def test_the_built_in_bonuses_keep_the_contract(name: str) -> None:
    options = {SIZES[name]: 64} if name in SIZES else {}  # 512 take 20 seconds longer
    too_slow = {Check.VISITS, Check.SCOPE} if name in FALLS_SLOWLY else set()
    judge_built_in(name, check_bonus(find(name), options, quick=name in LEARNED), too_slow)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", LEARNED)
def test_the_learned_bonuses_keep_the_contract_over_two_thousand_steps(name: str) -> None:
    judge_built_in(name, check_bonus(find(name)), set())


def judge_built_in(name: str, report: CheckReport, too_slow: set[Check]) -> None:
    assert report.passed, report
    visits = {Check.VISITS, Check.SCOPE}
    declared = dict.fromkeys(("icm", "disagreement", "ride", "oracle_left"), visits) | {"rnd_released": {Check.SIGN}}
    applies = ALSO.get(name, set()) | ({Check.SCALARS} if name in LEARNED else set())
    assert outcomes(report, "skipped") - too_slow == PLAIN - applies | declared.get(name, set())


def test_a_bonus_that_keeps_the_contract_passes_every_check() -> None:
    report = check_bonus(broken.GoodLearner)
    assert report.passed
    assert [result.check for result in report.results] == list(Check)
    assert outcomes(report, "ok") == set(Check)


BROKEN = [
    (
        broken.WithOddOptions,
        Check.OPTIONS,
        r"`Options` must be a dataclass, got dict; make the `Options` of WithOdd",
    ),
    (broken.WithLooseOptions, Check.OPTIONS, r"LooseOptions must be frozen; .*@dataclass\(frozen=True\)"),
    (broken.WithDemandingOptions, Check.OPTIONS, r"DemandingOptions cannot be made .*: .*noise must be set"),
    (broken.CannotBeMade, Check.MAKING, r"raised TypeError: .*; the class is called with its options and a Cont"),
    (
        broken.WarmsUpForHalfAStep,
        Check.MAKING,
        r"warm_up_steps of WarmsUpForHalfAStep must be an int >= 0, got 0.5",
    ),
    (broken.RaisesInItsWarmUp, Check.NUMBER, r"in the warm-up, observe raised ZeroDivisionError: .* of its file"),
    (broken.PaysTensors, Check.NUMBER, r"must return a float, got torch.Tensor at step 1; return float\(...\)"),
    (broken.PaysNothing, Check.NUMBER, r"must return a float, got None at step 1; "),
    (broken.Raises, Check.NUMBER, r"observe raised ZeroDivisionError: .* \(line \d+ of its file\) at step 1,500"),
    (broken.CannotReadReadOnly, Check.NUMBER, r"observe raised TypeError: .*read-only.* at step 1$"),
    (broken.PaysNaN, Check.FINITE, r"must return a finite number, got nan at step 100; "),
    (broken.PaysMoreThanTheReplayHolds, Check.FINITE, r"must return a finite number, got 1e\+39 at step 100; "),
    (broken.PaysInfinity, Check.FINITE, r"must return a finite number, got nan at step 2,251; "),
    (
        broken.PaysLessThanNothing,
        Check.SIGN,
        r"must return a number >= 0, got -0\.\d+ at step [\d,]+; .*`can_be_negative = True`",
    ),
    (broken.Unseeded, Check.SEED, r"from the same seed paid .* at step 1; draw from context.generator only"),
    (broken.DrawsFromTorch, Check.GENERATORS, r"observe drew from the global generator of torch at step 1; "),
    (broken.DrawsFromNumpy, Check.GENERATORS, r"observe drew from the global generator of numpy at step 1; "),
    (broken.DrawsFromPythonWhenItLearns, Check.GENERATORS, r"learn drew from the global generator of Python at "),
    (broken.SavesATensor, Check.STATE, r"state\(\)\['weight'\], torch.Tensor, cannot be saved .* numpy arrays"),
    (broken.SavesNumbersAsKeys, Check.STATE, r"state\(\)\['counts'\] must have str keys only"),
    (broken.SavesAList, Check.STATE, r"state\(\) must be a dictionary, got list; return"),
    (broken.ChangesWhenSaved, Check.STATE, r"at step NEXT after state\(\) was called, .* must not change the bonus"),
    (broken.ForgetsItsWeight, Check.RESUME, r"restored after step SAVED, it paid .* at step NEXT instead of"),
    (broken.ForgetsWhatItLearned, Check.RESUME, r"restored after step SAVED, it paid .* at step NEXT instead of"),
    (broken.ForgetsAnEpisode, Check.RESUME, r"restored after step SAVED, it paid .* at step 400 instead of"),
    (broken.CannotLoad, Check.RESUME, r"load_state raised KeyError: 'all' \(line \d+ of its file\)"),
    (broken.RaisesOnceRestored, Check.RESUME, r"once restored, observe raised AttributeError: .*'noise'.* NEXT"),
    (
        broken.ForgetsWhatItVisited,
        Check.RESUME,
        r"on four_rooms, restored after step ROOMS_SAVED, .* at step ROOMS_NEXT instead of 0;",
    ),
    (
        broken.ForgetsItsFilter,
        Check.RESUME,
        r"on four_rooms, restored after step ROOMS_SAVED, it paid .* at step ROOMS_NEXT inst",
    ),
    (
        broken.ForgetsAPendingBatch,
        Check.RESUME,
        r"on four_rooms, restored after step ROOMS_SAVED, it paid .*batches not lea",
    ),
    (broken.ForgetsItsOptimiser, Check.RESUME, r"restored after step SAVED, it paid .*optimisers"),
    (broken.SamplesFromAGeneratorOfItsOwn, Check.RESUME, r"restored after step SAVED, it paid .* instead of"),
    (
        broken.NeverClearsItsGradients,
        Check.RESUME,
        r"on four_rooms, restored after step ROOMS_SAVED, .*without zero_grad",
    ),
    (broken.WritesIntoTheState, Check.INPUTS, r"observe changed transition.state at step 1; .*state.copy\(\)"),
    (broken.WritesIntoTheMemory, Check.INPUTS, r"observe changed transition.ram at step 1; "),
    (broken.WritesIntoTheBatch, Check.INPUTS, r"learn changed batch.frames at step 37; .*batch.frames.copy\(\)"),
    (broken.LearnsFromSomethingElse, Check.LEARN, r"learn raised AttributeError: .*'mean'.* called with batches"),
    (
        broken.NeverStepsWhenItLearns,
        Check.LEARN,
        r"on four_rooms it paid the same over 700 steps .* optimizer.step",
    ),
    (broken.ScoresTheNextFrame, Check.SCORE, r"scored a step between known frames as .* and then paid"),
    (broken.ScoresAndDoesNotScale, Check.SCORE, r"scored a step between known frames as .* and then paid"),
    (broken.ScoresTheFirstStepAlone, Check.SCORE, r"as .* where it is the second; frames of the k-th step begin"),
    (broken.ScoresRowsAlone, Check.SCORE, r"array of numbers \[batch, n\], here \(12, 3\), got float64 \(12,\)"),
    (broken.LearnsWhenItScores, Check.SCORE, r"score changed what state\(\) returns"),
    (broken.DrawsToScore, Check.SCORE, r"score drew random numbers"),
    (broken.WritesIntoWhatItScores, Check.SCORE, r"score changed batch.frames; work on a copy"),
    (broken.LogsNaN, Check.SCALARS, r"scalars\(\)\['loss'\] must be finite, got nan; .* \(after step 2,343\)"),
    (
        broken.LogsATensor,
        Check.SCALARS,
        r"must be a float, got torch.Tensor; return float\(...\) \(after step COMPARED",
    ),
    (broken.LogsAndRaises, Check.SCALARS, r"scalars raised AttributeError: .*'loss'.* \(line \d+ of its file\)"),
    (broken.DrawsToLog, Check.SCALARS, r"scalars drew from context.generator after step COMPARED; "),
    (broken.DrawsFromTorchToLog, Check.SCALARS, r"scalars drew from the global generator of torch after step COMPARED"),
    (broken.CountsWhatItLogs, Check.SCALARS, r"scalars changed what state\(\) returns after step COMPARED; it must"),
    (broken.ForgetsWhatItLogs, Check.SCALARS, r"once restored, it logs .* after step COMPARED instead of"),
    (
        broken.Constant,
        Check.VISITS,
        r"6 steps in turn paid 1 and, after 100 rounds, 1; .*`measures_visits = False`",
    ),
    (
        broken.FallsWithTime,
        Check.VISITS,
        r"6 steps in turn paid 0.\d+ .*, but new ones only 0.0\d+: it falls for all",
    ),
    (
        broken.RisesWithVisits,
        Check.VISITS,
        r"6 steps in turn paid 1.\d+ at first .*, 1.\d+e\+08; look for a wrong sign",
    ),
    (broken.NeverSteps, Check.VISITS, r"paid 2.24 and, after 100 rounds, 2.24; let it learn .*optimizer.step\(\)"),
    (broken.ConstantOnAtari, Check.VISITS, r"paid 1 on average .*, 1 over 200 to 300, .*`measures_visits = False`"),
    (broken.NeverForgets, Check.SCOPE, r"episodic; .* from 0.\d+ to 0.0\d+ paid 0.0\d+ .*, and 0.0\d+ .*; clear"),
    (
        broken.ForgetsAtTerminationOnly,
        Check.SCOPE,
        r"paid 0.0\d+ .* after truncation, and 0.[1-9]\d+ after termin",
    ),
    (broken.DoesNotDeclareThatItForgets, Check.SCOPE, r"lifelong; .* paid 0.[1-9]\d+ .*; declare `scope = \"epis"),
    (broken.DeclaresBothAndNeverForgets, Check.SCOPE, r"both; .*a known one 0.[01]\d+ .*; clear one of its parts"),
    (broken.DeclaresBothAndForgetsAtTerminationOnly, Check.SCOPE, r"both; .*; clear one of its parts"),
    (broken.DeclaresBothAndKeepsNothing, Check.SCOPE, r"both; .* paid 1.\d+, a known one 1.\d+ .*; let one of its"),
    (broken.DeclaresAScopeThatThereIsNot, Check.SCOPE, r"one of lifelong, episodic, both, got 'seasonal'"),
    (
        broken.SwapsTheStates,
        Check.PAYS_FOR,
        r"declares 'next_state', but a step .* paid 0, .* known 0.95; .* swapped",
    ),
    (broken.DeclaresThatItPaysForSomethingElse, Check.PAYS_FOR, r"one of state, next_state, got 'both'"),
    (broken.ReadsTheFourthFrame, Check.SMALL, r"on four_rooms, observe raised IndexError: .* from the Context$"),
    (broken.PaysNaNOnSmallFrames, Check.SMALL, r"on four_rooms, observe must return a finite .* at step 1; "),
]
"""Each broken bonus, the check that it fails, and the message, in which a word in capitals stands for a step."""
FOUND_LATE = (
    broken.Raises,
    broken.PaysInfinity,
    broken.ForgetsAnEpisode,
    broken.NeverStepsWhenItLearns,
    broken.LogsNaN,
    broken.Constant,
    broken.RisesWithVisits,
    broken.NeverSteps,
    broken.ConstantOnAtari,
    broken.NeverForgets,
    broken.ForgetsAtTerminationOnly,
    broken.DeclaresBothAndKeepsNothing,
    broken.SwapsTheStates,
)
"""Those that a quick check does not find, or reports in other words."""


def assert_fails(kind: type[Any], failed: Check, message: str, lengths: play.Lengths) -> None:
    steps = {"SAVED": lengths.saved_after, "NEXT": lengths.saved_after + 1, "COMPARED": lengths.compared}
    steps |= {"ROOMS_SAVED": lengths.rooms_saved_after, "ROOMS_NEXT": lengths.rooms_saved_after + 1}
    expected = re.sub(rf"\b({'|'.join(steps)})\b", lambda found: str(steps[found[0]]), message)
    report = check_here(kind, quick=lengths is play.QUICK)
    assert not report.passed
    assert set(report.failed) == {failed}, report
    assert re.search(expected, report.failed[failed]), report


@pytest.mark.parametrize(("kind", "failed", "message"), BROKEN)
def test_a_broken_bonus_fails_for_its_own_reason_alone(kind: type[Any], failed: Check, message: str) -> None:
    assert_fails(kind, failed, message, play.FULL if kind in FOUND_LATE else play.QUICK)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("kind", "failed", "message"), [row for row in BROKEN if row[0] not in FOUND_LATE])
def test_a_bonus_that_a_quick_check_fails_fails_a_full_one_too(kind: type[Any], failed: Check, message: str) -> None:
    assert_fails(kind, failed, message, play.FULL)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            broken.VisitsByHash,
            r"on four_rooms, restored in a new process after step 638, .* at step 639 .*; hash\(\) of",
        ),
        (broken.CountsByHash, r"a new process after step 220, it paid .* at step 301 instead of .*; hash\(\) of text"),
        (broken.SavesAMemoryAddress, r"a new process, load_state raised KeyError: .* of its file\) at step 221$"),
        (broken.EndsTheNewProcess, r"a new process, the process ended with code 7: the end$"),
    ],
)
def test_a_bonus_that_lives_in_one_process_only_fails_in_a_new_one(kind: type[Any], message: str) -> None:
    assert check_here(kind).passed
    report = check_bonus(kind)
    assert set(report.failed) == {Check.RESUME}, report
    assert re.search(message, report.failed[Check.RESUME]), report


def test_a_class_that_a_new_process_cannot_import_is_restored_in_this_one() -> None:
    class Local(broken.Good):
        pass

    report = check_bonus(Local)
    assert report.passed
    assert "not tried in a new one, since test_a_class" in message(report, Check.RESUME)


def test_what_cannot_be_checked_any_more_is_skipped_with_the_reason() -> None:
    assert message(check_here(broken.WithOddOptions), Check.FINITE) == "not reached, since its Options are no dataclass"
    raised = check_here(broken.Raises)
    assert (
        message(raised, Check.FINITE) == message(raised, Check.COST) == "not reached, since observe raised an exception"
    )
    assert outcomes(raised, "ok") == {Check.OPTIONS, Check.MAKING, Check.SEED, Check.STATE, Check.RESUME}
    assert message(check_here(broken.SavesATensor), Check.RESUME) == "its state cannot be saved"
    assert message(check_here(broken.Unseeded), Check.RESUME) == "the same seed does not give the same bonuses"


@pytest.mark.parametrize(
    ("kind", "failed"),
    [
        (broken.ForgetsWhatItLearned, Check.RESUME),
        (broken.ForgetsAnEpisode, Check.RESUME),
        (broken.NeverForgets, Check.SCOPE),
        (broken.ForgetsAtTerminationOnly, Check.SCOPE),
        (broken.ForgetsWhatItVisited, Check.RESUME),
        (broken.ForgetsAPendingBatch, Check.RESUME),
        (broken.NeverClearsItsGradients, Check.RESUME),
        (broken.FallsWithTime, Check.VISITS),
        (broken.RisesWithVisits, Check.VISITS),
        (broken.LearnsTheNextFrame, Check.VISITS),
        (broken.PredictsAnotherFrame, Check.VISITS),
        (broken.PredictsFromAnotherAction, Check.VISITS),
        (broken.SwapsTheStates, Check.PAYS_FOR),
    ],
)
def test_a_quick_check_finds_what_needs_batches_repeats_and_ends_of_episodes(kind: type[Any], failed: Check) -> None:
    assert set(check_here(kind, quick=True).failed) == {failed}


def test_a_quick_check_does_not_fail_what_may_only_be_slow() -> None:
    for kind in (broken.GoodReplayPredictor, broken.NeverSteps, broken.NeverStepsWhenItLearns):
        assert check_here(kind, quick=True).passed
    report = check_here(broken.GoodReplayPredictor, quick=True)
    assert {Check.VISITS, Check.SCOPE} <= outcomes(report, "skipped")
    assert message(report, Check.VISITS).endswith("a slow bonus needs more visits than a quick check has")
    without = message(check_here(broken.NeverStepsWhenItLearns, quick=True), Check.LEARN)
    assert without == "on four_rooms it paid the same over 366 steps as without learn; a full check plays longer"


@pytest.mark.parametrize(
    "kind",
    [
        broken.GoodNovelty,
        broken.GoodPredictor,
        broken.GoodProduct,
        broken.GoodReplayPredictor,
        broken.GoodSampler,
        broken.GoodWeightedSampler,
    ],
)
def test_a_full_check_passes_what_is_right(kind: type[Any]) -> None:
    report = check_here(kind)
    assert report.passed, report
    assert Check.VISITS in outcomes(report, "ok")


@pytest.mark.parametrize(
    ("name", "state", "other"),
    [
        ("simhash", "state", "next_state"),
        ("cts", "state", "next_state"),
        ("oracle", "next_state", "state"),
        ("oracle_episodic", "next_state", "state"),
        ("oracle_product", "next_state", "state"),
    ],
)
def test_the_state_that_a_built_in_bonus_pays_for_is_told_from_the_other(name: str, state: str, other: str) -> None:
    for declared, failed in ((state, set()), (other, {Check.PAYS_FOR})):
        kind = type("Declares", (find(name),), {"pays_for": declared})
        assert set(check_here(kind, quick=True).failed) == failed


@pytest.mark.parametrize("kind", [broken.Good, broken.GoodLearner, broken.GoodEpisodic])
def test_a_quick_check_tells_how_far_it_is_and_passes_what_is_right(kind: type[Any]) -> None:
    shares: list[float] = []
    assert check_here(kind, quick=True, progress=shares.append).passed
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_several_faults_are_all_reported() -> None:
    class Both(broken.PaysLessThanNothing, broken.SavesATensor, broken.WritesIntoTheMemory):
        pass

    assert set(check_here(Both).failed) == {Check.SIGN, Check.STATE, Check.INPUTS}


def test_what_a_bonus_declares_is_not_held_against_it() -> None:
    for kind, declared in (
        (broken.DeclaresThatItMayPayLess, {Check.SIGN}),
        (broken.DeclaresThatItDoesNotMeasureVisits, {Check.VISITS, Check.SCOPE}),
    ):
        report = check_here(kind)
        assert report.passed, report
        assert outcomes(report, "skipped") == PLAIN | declared
        assert all(message(report, each).startswith("it declares ") for each in declared)


def test_an_episodic_bonus_falls_within_an_episode_and_comes_back_in_the_next() -> None:
    report = check_here(broken.GoodEpisodic)
    assert report.passed, report
    assert outcomes(report, "skipped") == PLAIN
    assert message(report, Check.SCOPE).startswith("episodic; ")


def test_a_bonus_that_does_not_fall_has_no_scope_to_look_at() -> None:
    assert message(check_here(broken.Constant), Check.SCOPE) == "it does not fall as a frame is visited again"


def test_the_options_given_are_the_options_checked() -> None:
    assert check_here(broken.WithDemandingOptions, {"noise": 0.1}).passed
    assert set(check_here(broken.Good, {"noise": math.inf}).failed) == {Check.FINITE}
    refused = check_here(broken.Good, {"nose": 0.1})
    assert "did you mean 'bonus.options.noise'?" in refused.failed[Check.OPTIONS]


def test_the_cost_is_reported_and_never_fails() -> None:
    assert re.fullmatch(r"[\d.e-]+ ms per observe on one thread", message(check_here(broken.Good), Check.COST))
    cheap = message(check_here(broken.GoodLearner, agent_step_milliseconds=1e9), Check.COST)
    assert re.fullmatch(
        r".* and .* ms per learn, every 4 steps on one thread, under 1% of an agent step of 1e\+09 ms", cheap
    )
    dear = check_here(broken.Good, agent_step_milliseconds=1e-6)
    assert dear.passed
    assert message(dear, Check.COST).endswith("; training takes more than twice as long as without a bonus")


def test_global_generators_threads_and_denormal_numbers_are_the_callers_again_afterwards() -> None:
    def everything() -> tuple[Any, ...]:
        return *global_generators(), torch.get_num_threads(), (torch.full((), 1e-40) * 1.0).item()

    torch.manual_seed(3)
    before = everything()
    for kind in (broken.DrawsFromTorch, broken.DrawsFromNumpy, broken.Raises):
        check_here(kind)
        assert everything() == before


def test_a_report_reads_as_one_line_per_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    report = CheckReport(
        "mine:Mine",
        (
            Result(Check.MAKING, "ok"),
            Result(Check.LEARN, "skipped", "it has no method learn"),
            Result(Check.SIGN, "FAILED", "observe paid -1 at step 3; clip it at 0"),
        ),
    )
    assert str(report) == (
        "mine:Mine\n"
        "ok       can be made\n"
        "skipped  learns from a batch: it has no method learn\n"
        "FAILED   bonuses are not negative: observe paid -1 at step\n"
        "         3; clip it at 0"
    )
    assert report.failed == {Check.SIGN: "observe paid -1 at step 3; clip it at 0"}


# What a bonus observes.


def test_the_warm_up_is_two_thousand_varied_steps_of_real_play() -> None:
    steps = warm_up()
    assert len(steps) == 2_000
    assert len({step.frame.tobytes() for step in steps}) > 1_600
    assert len({step.action for step in steps}) == MAX_ACTIONS
    assert sum(step.reward != 0.0 for step in steps) > 10
    endings = {(step.terminated, step.truncated) for step in steps[: play.FULL.saved_after]}
    assert endings == {(False, False), (True, False), (False, True)}
    for before, after in itertools.pairwise(steps):
        for array in (before.state, before.next_state, before.ram):
            assert not array.flags.writeable
        over = before.terminated or before.truncated
        assert after.episode_step == (0 if over else before.episode_step + 1)
        assert over or after.state is before.next_state


def test_the_new_frame_is_new_and_comes_from_the_middle_of_an_episode() -> None:
    new = new_transition(play.NEW_GAME)
    assert new.frame.tobytes() not in {step.frame.tobytes() for step in warm_up()}
    assert (new.terminated, new.truncated) == (False, False)
    assert new.frame.std() > 10.0


def test_the_new_frame_is_visited_in_three_episodes_of_which_one_is_truncated_and_one_terminated() -> None:
    new = new_transition(play.NEW_GAME).frame.tobytes()
    shown = [(step.frame.tobytes() == new, step.terminated, step.truncated, step.episode_step) for step in visits()]
    expected = [
        *((True, False, False, step) for step in range(300)),
        (False, False, False, 300),
        (False, False, True, 301),
        *((True, False, False, step) for step in range(20)),
        (False, True, False, 20),
        *((True, False, False, step) for step in range(20)),
    ]
    assert shown == expected


@pytest.mark.parametrize("lengths", [play.FULL, play.QUICK])
def test_in_four_rooms_a_bonus_is_saved_late_in_an_episode_whose_frames_come_back(lengths: play.Lengths) -> None:
    steps, saved = play.rooms(lengths), lengths.rooms_saved_after
    assert saved > 250
    start = saved - steps[saved].episode_step
    visited = {step.frame.tobytes() for step in steps[start : saved + 1]}
    assert len(visited) > 5
    end = next(number for number in range(saved, len(steps)) if steps[number].over)
    assert sum(step.next_state[-1].tobytes() in visited for step in steps[saved : end + 1]) > 3
    endings = {(step.terminated, step.truncated) for step in steps[saved:]}
    assert endings == {(False, False), (True, False), (False, True)}


@pytest.mark.parametrize("lengths", [play.FULL, play.QUICK])
def test_steps_in_turn_are_equally_frequent_and_their_states_are_no_next_states(lengths: play.Lengths) -> None:
    steps = turns(lengths)
    in_turn, rest = steps[: lengths.turn_steps], steps[lengths.turn_steps :]
    pairs = collections.Counter((step.frame.tobytes(), step.action, step.next_state.tobytes()) for step in in_turn)
    assert len(pairs) == PAIRS
    assert set(pairs.values()) == {lengths.turn_steps // PAIRS}
    states, next_states = ({key[index] for key in pairs} for index in (0, 2))
    assert len(states) == 3
    assert len(next_states) == PAIRS
    assert not states & next_states
    known = [(step.frame.tobytes() in states, step.next_state.tobytes() in next_states) for step in rest]
    both = (True, True)
    assert known == [*PAIRS * [(False, False)], both, *PAIRS * [(True, False), both, (False, True), both]]
    assert [step.terminated for step in rest] == [each == both for each in known]
    assert not any(step.over for step in turns(lengths, one_episode=True))


class Collects(broken.Good):
    batches: tuple[Any, ...] = ()

    def learn(self, batch: Any) -> None:
        self.weight *= 0.999
        if batch.frames.shape[-1] == 84:  # not of Four Rooms
            Collects.batches = (*Collects.batches[-9:], batch)


def test_a_batch_is_what_the_agent_would_have_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_here(Collects).passed
    steps = [*warm_up(), *visits()]
    assert any(batch.terminal.any() for batch in Collects.batches)
    for batch in Collects.batches:
        assert batch.frames.shape == (32, 7, 84, 84)
        assert batch.indices.max() < len(steps)
        for row, index in enumerate(batch.indices):
            one, two, three = steps[index : index + 3]
            ends = [step.terminated or step.truncated for step in (one, two, three)]
            np.testing.assert_array_equal(batch.frames[row, :4], one.state)
            assert batch.actions[row, 0] == one.action
            assert batch.terminal[row] == any(ends)
            rewards = np.clip([one.reward, two.reward * (not ends[0]), three.reward * (not any(ends[:2]))], -1.0, 1.0)
            assert batch.extrinsic[row].tolist() == pytest.approx(rewards.tolist())
            assert batch.steps[row] == (1 if ends[0] else 2 if ends[1] else 3)
            if not any(ends) and index < 1_997:
                np.testing.assert_array_equal(batch.frames[row, -4:], three.next_state)

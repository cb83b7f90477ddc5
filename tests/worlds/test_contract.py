"""The contract of a world: those that keep it pass, and each of the broken ones fails for its own reason alone."""

import re

import pytest

from offpiste.cli import main
from offpiste.worlds import contract
from offpiste.worlds.contract import check_world
from offpiste.worlds.contract_report import Check
from tests.worlds import broken


@pytest.mark.parametrize(
    "name",
    [
        *(f"tests.worlds.broken:{kind.__name__}" for kind in (broken.Good, broken.GoodDrawn, broken.GoodPositions)),
        "tests.worlds.broken:GoodSnapshots",
        "key_door",
        "noisy_tv",
        "gymnasium:FrozenLake-v1",
    ],
)
def test_a_world_that_keeps_the_contract_passes(name: str) -> None:
    if name.endswith("FrozenLake-v1"):
        pytest.importorskip("pygame")
    report = check_world(name)
    assert report.failed == {}
    assert len(report.results) == len(Check)


@pytest.mark.parametrize(
    ("kind", "check", "message"),
    [
        (
            broken.CannotBeMade,
            Check.OPENS,
            r"CannotBeMade cannot be made: OSError: there is no file of levels; it is c",
        ),
        (broken.HasNoDiscreteActions, Check.OPENS, r"must be a Discrete of <= 1,024, got Box.*; wrap the environment"),
        (broken.HasNoActions, Check.OPENS, r"must be a Discrete of <= 1,024, got None; wrap the environment"),
        (
            broken.IsNoEnvironment,
            Check.OPENS,
            r"must make a gymnasium.Env, got .*IsNoEnvironment; let the class inherit",
        ),
        (
            broken.DeclaresLessThanRandomPlay,
            Check.OPENS,
            r"mean return of random play and a higher one .* got \(1.0, 0",
        ),
        (
            broken.DrawsNothing,
            Check.STEPS,
            r"must be an array uint8 \[height, width\] .* got None from render\(\), .* are Discrete\(36\); let it have",
        ),
        (
            broken.ObservesFloats,
            Check.STEPS,
            r"got None from render\(\), for its observations are Box\(0.0, 1.0, \(3, .*; let it have observat",
        ),
        (
            broken.Raises,
            Check.STEPS,
            r"it raised ZeroDivisionError: .* \(broken.py, line \d+\)$",
        ),
        (
            broken.PaysNothing,
            Check.STEPS,
            r"it raised TypeError: .*NoneType'; reset.* step an observation, a reward, whether",
        ),
        (broken.PaysNaN, Check.STEPS, r"the reward must be a finite number, got nan at step \d+"),
        (broken.ShowsNothing, Check.FRAMES, r"all frames of 500 random steps are the same; draw the state, .* 84 × 84"),
        (
            broken.HidesThePlayer,
            Check.FRAMES,
            r"other actions showed the same frames in 500 steps; draw what actions change, as where the player is",
        ),
        (
            broken.NeverEnds,
            Check.EPISODES,
            r"none ended in 500 .* limit is 108,000 steps in runs of 100,000, .*; return truncated = True after",
        ),
        (
            broken.DrawsUnseeded,
            Check.SEED,
            r"showed different frames.* super\(\).reset\(seed=seed\) in reset, and draw ",
        ),
        (
            broken.DrawsWhenRendered,
            Check.RENDER,
            r"another course at step \d+ where it was drawn once more .* must chan",
        ),
        (
            broken.SharesItsState,
            Check.APART,
            r"another course at step \d+ while a second one was played in turns, .*; keep what changes in self",
        ),
        (
            broken.RemembersEpisodes,
            Check.RESTORE,
            r"after step \d+, .*; reset\(seed=seed\) must set all anew, .* before it;",
        ),
        (
            broken.ForgetsItsGenerator,
            Check.RESTORE,
            r"after step \d+, .*; snapshot\(\) and restore\(\) must carry all tha",
        ),
        (
            broken.SavesNoBytes,
            Check.RESTORE,
            r"snapshot\(\) of .*SavesNoBytes must return bytes, got .*dict.*; leave out snapshot\(\) and restore\(\)",
        ),
        (
            broken.ChangesWhenSaved,
            Check.RESTORE,
            r"another course at step \d+ where it was saved; snapshot\(\) must chan",
        ),
        (
            broken.StartsByTheHashOfText,
            Check.PROCESS,
            r"in a new process it took another course at step .* hash\(\) of t",
        ),
        (
            broken.DrawsFromNumpy,
            Check.GENERATORS,
            r"from the global generator of numpy; draw from self.np_random, which",
        ),
        (broken.DrawsFromPython, Check.GENERATORS, r"from the global generator of Python; draw from self.np_random"),
        (
            broken.LocatesOutside,
            Check.POSITION,
            r"must return row and column, 0 to 31, .* got \(\d00, \d\); divide coord",
        ),
        (broken.LocatesByOneNumber, Check.POSITION, r"must return row and column, 0 to 31, .* got \d+; "),
        (
            broken.LocatesNobody,
            Check.POSITION,
            r"it raised LookupError: there is no player \(broken.py, line \d+\)",
        ),
        (broken.LocatesNowhere, Check.POSITION, r"the same in all of 500 steps; return where the player is now"),
        (
            broken.LocatesByEpisode,
            Check.POSITION,
            r"after step \d+, position\(\) was another; compute it from the state",
        ),
        pytest.param(
            broken.IsSlow, Check.SPEED, r"\d+ steps a second, so 1\.\d hours .*; draw", marks=pytest.mark.slow
        ),
    ],
)
def test_a_broken_world_fails_for_its_own_reason_alone(
    kind: type, check: Check, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if check is not Check.PROCESS:  # which takes longer than all others together
        monkeypatch.delitem(contract._CHECKS, Check.PROCESS)
    failed = check_world(f"{kind.__module__}:{kind.__name__}").failed
    assert list(failed) == [check]
    assert re.search(message, failed[check]), failed[check]


def test_the_exit_code_says_whether_a_world_keeps_the_contract(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["check-world", "tests.worlds.broken:Good"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "tests.worlds.broken:Good",
        "ok       can be opened: 4 actions; a state is 1 frame of 84 × 84 pixels",
    ]
    assert main(["check-world", "tests.worlds.broken:ShowsNothing"]) == 1
    assert "\nFAILED   frames show what happens: all frames of" in capsys.readouterr().out
    assert main(["check-world", "tests.worlds.broken:Godo"]) == 1
    shown = capsys.readouterr().out
    assert "FAILED   can be opened: cannot load the world 'tests.worlds.broken:Godo': " in shown
    assert "skipped  can be played: not reached, since it cannot be opened" in shown

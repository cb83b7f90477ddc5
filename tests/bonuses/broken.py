"""Bonuses that break the contract, each in its own way, and a few that keep it."""

import math
import os
import random
import sys
import zlib
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from offpiste.bonuses.base import Context, Transition


@dataclass(frozen=True)
class GoodOptions:
    noise: float = 0.1


class Good:
    """Counts frames; pays 1/√count times a weight drawn once, with a little noise drawn at each step."""

    Options: Any = GoodOptions

    def __init__(self, options: GoodOptions, context: Context) -> None:
        self.noise = options.noise
        self.generator = context.generator
        self.weight = 0.5 + float(torch.rand(()))
        self.counts: dict[int, int] = {}
        self.steps = 0

    def observe(self, transition: Transition) -> Any:
        self.steps += 1
        code = zlib.crc32(transition.frame.tobytes())
        self.counts[code] = self.counts.get(code, 0) + 1
        return (self.weight + self.noise * self.draw()) / math.sqrt(self.counts[code])

    def draw(self) -> float:
        return float(self.generator.random())

    def state(self) -> Any:
        codes, counts = np.array(list(self.counts)), np.array(list(self.counts.values()))
        return {"codes": codes, "counts": counts, "weight": self.weight, "steps": self.steps}

    def load_state(self, state: dict[str, Any]) -> None:
        self.counts = dict(zip(state["codes"].tolist(), state["counts"].tolist(), strict=True))
        self.weight, self.steps = state["weight"], state["steps"]


class GoodLearner(Good):
    """Pays less the more it has learned from batches of the replay."""

    learned = 0.0

    def observe(self, transition: Transition) -> Any:
        return super().observe(transition) / (1.0 + self.learned)

    def learn(self, batch: Any) -> None:
        self.learned += float(batch.frames[:, -1].mean()) * self.draw()

    def scalars(self) -> Any:
        return {"learned": self.learned, "steps": self.steps}

    def state(self) -> Any:
        return super().state() | {"learned": self.learned}

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        self.learned = state["learned"]


class GoodEpisodic(Good):
    """Clears its counts at the end of each episode."""

    scope = "episodic"

    def observe(self, transition: Transition) -> Any:
        paid = super().observe(transition)
        if self.forgets_at(transition):
            self.counts = {}
        return paid

    def forgets_at(self, transition: Transition) -> bool:
        return transition.over


class WithOddOptions(Good):
    Options = {"noise": 0.1}  # noqa: RUF012


@dataclass
class LooseOptions:
    noise: float = 0.1


class WithLooseOptions(Good):
    Options = LooseOptions


@dataclass(frozen=True)
class DemandingOptions:
    noise: float


class WithDemandingOptions(Good):
    Options = DemandingOptions


class CannotBeMade(Good):
    def __init__(self, options: GoodOptions) -> None:
        self.noise = options.noise


class PaysTensors(Good):
    def observe(self, transition: Transition) -> Any:
        return torch.tensor(super().observe(transition))


class PaysNothing(Good):
    def observe(self, transition: Transition) -> Any:
        super().observe(transition)


class Raises(Good):
    def observe(self, transition: Transition) -> Any:
        return super().observe(transition) / max(0, 1_500 - self.steps)


class CannotReadReadOnly(Good):
    """As compiled code that asks for writable memory."""

    def observe(self, transition: Transition) -> Any:
        view: Any = transition.state.data
        view[0, 0, 0] = view[0, 0, 0]
        return super().observe(transition)


class PaysNaN(Good):
    def observe(self, transition: Transition) -> Any:
        return math.nan if self.steps % 100 == 99 else super().observe(transition)


class PaysInfinity(Good):
    def observe(self, transition: Transition) -> Any:
        return 0.0 * math.inf if self.steps == 2_250 else super().observe(transition)


class PaysMoreThanTheReplayHolds(Good):
    def observe(self, transition: Transition) -> Any:
        return 1e39 if self.steps == 99 else super().observe(transition)


class PaysLessThanNothing(Good):
    def observe(self, transition: Transition) -> Any:
        return super().observe(transition) - 0.3


class DeclaresThatItMayPayLess(PaysLessThanNothing):
    can_be_negative = True


class Unseeded(Good):
    def __init__(self, options: GoodOptions, context: Context) -> None:
        super().__init__(options, context)
        self.generator = np.random.default_rng()


class DrawsFromTorch(Good):
    def draw(self) -> float:
        return float(torch.rand(()))


class DrawsFromNumpy(Good):
    def draw(self) -> float:
        return float(np.random.rand())  # noqa: NPY002


class DrawsFromPythonWhenItLearns(GoodLearner):
    def learn(self, batch: Any) -> None:
        self.learned += random.random()  # noqa: S311


class SavesATensor(Good):
    def state(self) -> Any:
        return super().state() | {"weight": torch.tensor(self.weight)}


class SavesNumbersAsKeys(Good):
    def state(self) -> Any:
        return {"counts": self.counts, "weight": self.weight, "steps": self.steps}


class SavesAList(Good):
    def state(self) -> Any:
        return list(super().state().values())


class ChangesWhenSaved(Good):
    def state(self) -> Any:
        self.draw()
        return super().state()


class ForgetsItsWeight(Good):
    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state | {"weight": self.weight})


class ForgetsWhatItLearned(GoodLearner):
    def state(self) -> Any:
        return super().state() | {"learned": 0.0}


class ForgetsAnEpisode(Good):
    """Its weight changes with the frames of an episode, once that is over; the saved state lacks those."""

    seen = 0

    def observe(self, transition: Transition) -> Any:
        self.seen += transition.action
        if transition.terminated:
            self.weight += self.seen
            self.seen = 0
        return super().observe(transition)


class CannotLoad(Good):
    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state["all"])


class RaisesOnceRestored(Good):
    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        del self.noise


class CountsByHash(Good):
    """Python hashes bytes differently in every process."""

    def observe(self, transition: Transition) -> Any:
        code = hash(transition.frame.tobytes())
        self.counts[code] = self.counts.get(code, 0) + 1
        return self.weight / math.sqrt(self.counts[code])


class SavesAMemoryAddress(Good):
    saved: ClassVar[dict[int, Any]] = {}

    def state(self) -> Any:
        self.saved[id(self)] = super().state()
        return {"address": id(self)}

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(self.saved[state["address"]])


class EndsTheNewProcess(Good):
    def load_state(self, state: dict[str, Any]) -> None:
        if any(argument.endswith(".new_process") for argument in sys.orig_argv):
            print("the end", file=sys.stderr, flush=True)
            os._exit(7)
        super().load_state(state)


class WritesIntoTheState(Good):
    def observe(self, transition: Transition) -> Any:
        paid = super().observe(transition)
        halve(transition.state)
        return paid


class WritesIntoTheMemory(Good):
    def observe(self, transition: Transition) -> Any:
        paid = super().observe(transition)
        halve(transition.ram)
        return paid


class WritesIntoTheBatch(GoodLearner):
    def learn(self, batch: Any) -> None:
        super().learn(batch)
        halve(batch.frames)


class LearnsFromSomethingElse(Good):
    def learn(self, frame: NDArray[np.uint8]) -> float:
        return float(frame.mean())


class LogsNaN(Good):
    def scalars(self) -> Any:
        return {"loss": math.nan if self.steps > 1_000 else 0.0}


class LogsATensor(Good):
    def scalars(self) -> Any:
        return {"weight": torch.tensor(self.weight)}


class LogsAndRaises(Good):
    def scalars(self) -> Any:
        return {"loss": self.loss}  # type: ignore[attr-defined]


class DrawsToLog(Good):
    def scalars(self) -> Any:
        return {"sample": self.draw()}


class DrawsFromTorchToLog(Good):
    def scalars(self) -> Any:
        return {"sample": float(torch.rand(()))}


class CountsWhatItLogs(Good):
    def scalars(self) -> Any:
        self.steps += 1
        return {"steps": self.steps}


class ForgetsWhatItLogs(Good):
    """Logs a sum over all steps that its state lacks."""

    total = 0.0

    def observe(self, transition: Transition) -> Any:
        self.total += transition.action
        return super().observe(transition)

    def scalars(self) -> Any:
        return {"actions": self.total}


class Constant(Good):
    def observe(self, transition: Transition) -> Any:
        return 1.0


class FallsWithTime(Good):
    def observe(self, transition: Transition) -> Any:
        self.steps += 1
        return self.steps**-0.5


class DeclaresThatItDoesNotMeasureVisits(Constant):
    measures_visits = False


class NeverForgets(GoodEpisodic):
    def forgets_at(self, transition: Transition) -> bool:
        return False


class ForgetsAtTerminationOnly(GoodEpisodic):
    def forgets_at(self, transition: Transition) -> bool:
        return transition.terminated


class DoesNotDeclareThatItForgets(GoodEpisodic):
    scope = "lifelong"


class DeclaresBothAndNeverForgets(NeverForgets):
    scope = "both"


class DeclaresAScopeThatThereIsNot(Good):
    scope = "seasonal"


def halve(array: NDArray[np.uint8]) -> None:
    array //= np.uint8(2)


class ReadsTheFourthFrame(Good):
    def observe(self, transition: Transition) -> Any:
        return super().observe(transition) * (1.0 + 1e-3 * float(transition.state[3].mean()))


class PaysNaNOnSmallFrames(Good):
    def observe(self, transition: Transition) -> Any:
        return super().observe(transition) if transition.frame.shape == (84, 84) else math.nan

"""Bonuses that break the contract, each in its own way, and a few that keep it."""

import copy
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

from offpiste.bonuses.base import Context, Product, Transition
from offpiste.neural import load_module, save_module


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

    pays_for = "state"
    learned = 0.0

    def observe(self, transition: Transition) -> Any:
        return super().observe(transition) / (1.0 + self.learned)

    def learn(self, batch: Any) -> None:
        self.learned += float(batch.frames[:, -1].mean()) * self.draw()

    def scalars(self) -> Any:
        return {"learned": self.learned, "steps": self.steps}

    def score(self, batch: Any) -> Any:
        shown = self.scored(batch)
        codes = [[zlib.crc32(frame.tobytes()) for frame in row] for row in shown]
        counts = np.array([[1 + self.counts.get(code, 0) for code in row] for row in codes])
        return (self.weight + 0.5 * self.noise) / np.sqrt(counts) / (1.0 + self.learned)

    def scored(self, batch: Any) -> Any:
        return batch.frames[:, batch.stack - 1 : -1]

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


class GoodNovelty(Good):
    """Pays where a step leads to a rarer frame for the first time in the episode (after NovelD)."""

    scope: Any = "both"
    pays_for: Any = "next_state"
    novelty_of_state, novelty_of_next_state = -0.5, 1.0

    def __init__(self, options: GoodOptions, context: Context) -> None:
        super().__init__(options, context)
        self.visited: set[int] = set()

    def observe(self, transition: Transition) -> Any:
        self.steps += 1
        state, next_state = (zlib.crc32(each[-1].tobytes()) for each in (transition.state, transition.next_state))
        for code in (state, next_state):
            self.counts[code] = self.counts.get(code, 0) + 1
        paid = self.novelty_of_state * self.novelty(state) + self.novelty_of_next_state * self.novelty(next_state)
        visit = self.key(transition.next_state[-1].tobytes())
        paid = 0.0 if visit in self.visited else max(paid, 0.0)
        self.visited = set() if transition.over else {*self.visited, visit}
        return paid

    def novelty(self, code: int) -> float:
        return 1.0 / math.sqrt(self.counts[code])

    def key(self, frame: bytes) -> int:
        return zlib.crc32(frame)

    def state(self) -> Any:
        return super().state() | {"visited": sorted(self.visited)}

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        self.visited = set(state["visited"])


class GoodPredictor:
    """Pays the error of a linear layer that learns another; frames are centred by their running mean."""

    Options: Any = GoodOptions

    def __init__(self, options: GoodOptions, context: Context) -> None:
        pixels = math.prod(context.frame_shape)
        self.target, self.predictor = torch.nn.Linear(pixels, 16), torch.nn.Linear(pixels, 16)
        self.optimizer = torch.optim.Adam(self.predictor.parameters(), 3e-4)
        self.mean, self.steps = np.zeros(context.frame_shape, np.float32), 0

    def observe(self, transition: Transition) -> Any:
        self.steps += 1
        self.mean = self.mean + (transition.frame - self.mean) / np.float32(self.steps)
        error = self.error(transition.frame[None])
        self.descend(error)
        return float(error.detach())

    def error(self, frames: NDArray[Any]) -> torch.Tensor:
        inputs = torch.from_numpy((frames - self.mean) / np.float32(255.0)).flatten(1)
        difference: torch.Tensor = self.predictor(inputs) - self.target(inputs).detach()
        return difference.square().sum(1).mean()

    def descend(self, error: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        error.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    def state(self) -> Any:
        layers = save_module(self.predictor, self.optimizer, "predictor/") | save_module(self.target, prefix="target/")
        return {**layers, "mean": self.mean, "steps": self.steps}

    def load_state(self, state: dict[str, Any]) -> None:
        load_module(state, self.predictor, self.optimizer, "predictor/")
        load_module(state, self.target, prefix="target/")
        self.mean, self.steps = state["mean"], state["steps"]


class GoodReplayPredictor(GoodPredictor):
    """The same, learned from batches of the replay, and paid after some steps, as statistics must settle first."""

    unpaid_steps = 250

    def observe(self, transition: Transition) -> Any:
        self.steps += 1
        with torch.no_grad():
            return float(self.error(transition.frame[None])) if self.steps > self.unpaid_steps else 0.0

    def learn(self, batch: Any) -> None:
        if self.steps >= self.unpaid_steps:
            self.descend(self.error(self.learned(batch)))

    def learned(self, batch: Any) -> Any:
        return batch.states[:, -1]


class GoodSampler(GoodPredictor):
    """The same, paid after a warm-up and learned from batches that it samples itself."""

    warm_up_steps: Any = 40

    def __init__(self, options: GoodOptions, context: Context) -> None:
        super().__init__(options, context)
        self.sample = context.sample

    def descend(self, error: torch.Tensor) -> None:
        batch = self.sample(4)
        if batch is not None:
            super().descend(self.error(batch.states[:, -1]))


class GoodWeightedSampler(GoodSampler):
    """The same, from batches that are sampled by weights of its own."""

    def __init__(self, options: GoodOptions, context: Context) -> None:
        super().__init__(options, context)
        self.sample = lambda size, *_: context.sample(size, lambda numbers: 1.0 / (1.0 + numbers[-1] - numbers))


class GoodProduct(Good):
    """Pays a lifelong part times an episodic one."""

    scope = "both"

    def __init__(self, options: GoodOptions, context: Context) -> None:
        super().__init__(options, context)
        self.visits: dict[str, int] = {}

    def observe(self, transition: Transition) -> Any:
        code = str(zlib.crc32(transition.frame.tobytes()))
        self.visits[code] = self.visits.get(code, 0) + 1
        paid = Product(lifelong=super().observe(transition), episodic=self.visits[code] ** -0.5)
        self.visits = {} if transition.over else self.visits
        return paid

    def state(self) -> Any:
        return super().state() | {"visits": self.visits}

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        self.visits = {**state["visits"]}


class WarmsUpForHalfAStep(Good):
    warm_up_steps = 0.5


class RaisesInItsWarmUp(GoodSampler):
    def observe(self, transition: Transition) -> Any:
        return super().observe(transition) / (self.steps - 30)


class ForgetsItsOptimiser(GoodPredictor):
    def load_state(self, state: dict[str, Any]) -> None:
        kept = copy.deepcopy(self.optimizer.state_dict())
        super().load_state(state)
        self.optimizer.load_state_dict(kept)


class SamplesFromAGeneratorOfItsOwn(GoodSampler):
    """Its own generator chooses what it learns; the saved state lacks it."""

    def __init__(self, options: GoodOptions, context: Context) -> None:
        super().__init__(options, context)
        self.generator = np.random.default_rng(1)

    def descend(self, error: torch.Tensor) -> None:
        if self.generator.random() < 0.5:
            super().descend(error)


class GoodForwardModel(GoodPredictor):
    """Pays the error in predicting features of the next frame, by a linear layer for each action."""

    def __init__(self, options: GoodOptions, context: Context) -> None:
        super().__init__(options, context)
        self.actions = np.eye(context.action_count, dtype=np.float32)
        pixels = math.prod(-(-length // 3) for length in context.frame_shape)
        self.target = torch.nn.Linear(pixels, 16)
        self.predictor = torch.nn.Linear(pixels * context.action_count, 16)
        self.optimizer = torch.optim.Adam(self.predictor.parameters(), 3e-4)

    def observe(self, transition: Transition) -> Any:
        with torch.no_grad():
            action, next_frame = np.array([transition.action]), transition.next_state[-1:]
            return float(self.prediction_error(transition.frame[None], action, next_frame))

    def learn(self, batch: Any) -> None:
        self.descend(self.prediction_error(batch.states[:, -1], self.taken(batch), self.following(batch)))

    def taken(self, batch: Any) -> Any:
        return batch.actions[:, 0]

    def following(self, batch: Any) -> Any:
        return batch.frames[:, batch.stack]

    def prediction_error(self, frames: Any, actions: Any, next_frames: Any) -> torch.Tensor:
        flat, next_flat = (
            each[:, ::3, ::3].reshape(len(each), -1) / np.float32(255.0) for each in (frames, next_frames)
        )
        by_action = flat[:, None, :] * self.actions[actions][:, :, None]  # [batch, actions, pixels]
        predicted = self.predictor(torch.from_numpy(by_action).flatten(1))
        difference: torch.Tensor = predicted - self.target(torch.from_numpy(next_flat)).detach()
        return difference.square().sum(1).mean()


class WithoutOptions(Good):
    Options = None


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


class ForgetsWhatItVisited(GoodNovelty):
    """A restored one takes every frame of the episode for new."""

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state | {"visited": []})


class VisitsByHash(GoodNovelty):
    def key(self, frame: bytes) -> int:
        return hash(frame)


class ForgetsItsFilter(Good):
    """Multiplied, after a warm-up, by what a filter makes of all that was paid; the saved state lacks the filter."""

    filtered = 0.0

    def observe(self, transition: Transition) -> Any:
        paid = super().observe(transition)
        if self.steps > 250:
            self.filtered = 0.99 * self.filtered + paid
        return paid / (1.0 + 1e-3 * self.filtered)


class ForgetsAPendingBatch(Good):
    """Learns from every 32 frames after a warm-up; those not learned yet are lost when it is saved."""

    learned = 0.0

    def __init__(self, options: GoodOptions, context: Context) -> None:
        super().__init__(options, context)
        self.pending: list[float] = []

    def observe(self, transition: Transition) -> Any:
        paid = super().observe(transition)
        if self.steps > 250:
            self.pending.append(float(transition.frame.mean()) + transition.action)
        if len(self.pending) == 32:
            self.learned, self.pending = float(np.mean(self.pending)), []
        return paid / (1.0 + 1e-3 * self.learned)

    def state(self) -> Any:
        return super().state() | {"learned": self.learned}

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        self.learned = state["learned"]


class NeverClearsItsGradients(GoodReplayPredictor):
    """Gradients add up from batch to batch; the saved state lacks them."""

    measures_visits = False

    def descend(self, error: torch.Tensor) -> None:
        error.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()


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


class NeverStepsWhenItLearns(GoodLearner):
    def learn(self, batch: Any) -> None:
        self.loss = float(batch.frames[:, -1].mean())


class ScoresTheNextFrame(GoodLearner):
    def scored(self, batch: Any) -> Any:
        return batch.frames[:, batch.stack :]


class ScoresTheFirstStepAlone(GoodLearner):
    def scored(self, batch: Any) -> Any:
        return np.repeat(super().scored(batch)[:, :1], batch.actions.shape[1], axis=1)


class ScoresAndDoesNotScale(GoodLearner):
    def score(self, batch: Any) -> Any:
        return 10.0 * super().score(batch)


class ScoresRowsAlone(GoodLearner):
    def score(self, batch: Any) -> Any:
        return super().score(batch)[:, 0]


class LearnsWhenItScores(GoodLearner):
    def score(self, batch: Any) -> Any:
        found = super().score(batch)
        self.learned *= 1.01
        return found


class DrawsToScore(GoodLearner):
    def score(self, batch: Any) -> Any:
        return super().score(batch) * (1.0 + 0.1 * self.draw())


class WritesIntoWhatItScores(GoodLearner):
    def score(self, batch: Any) -> Any:
        found = super().score(batch)
        halve(batch.frames)
        return found


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


class ConstantOnAtari(Good):
    def observe(self, transition: Transition) -> Any:
        return 1.0 if transition.frame.shape == (84, 84) else super().observe(transition)


class FallsWithTime(Good):
    def observe(self, transition: Transition) -> Any:
        self.steps += 1
        return self.steps**-0.5


class RisesWithVisits(Good):
    """A wrong sign: it grows with each visit."""

    def observe(self, transition: Transition) -> Any:
        super().observe(transition)
        return 1.1 ** self.counts[zlib.crc32(transition.frame.tobytes())]


class NeverSteps(GoodPredictor):
    """Where one frame is repeated it falls all the same, since the running mean comes nearer."""

    def descend(self, error: torch.Tensor) -> None:
        pass


class LearnsTheNextFrame(GoodReplayPredictor):
    def learned(self, batch: Any) -> Any:
        return batch.frames[:, batch.stack]


class PredictsAnotherFrame(GoodForwardModel):
    """Takes the state to bootstrap from, some steps later, for the one that follows."""

    def following(self, batch: Any) -> Any:
        return batch.next_states[:, -1]


class PredictsFromAnotherAction(GoodForwardModel):
    def taken(self, batch: Any) -> Any:
        return batch.actions[:, -1]


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


class DeclaresBothAndKeepsNothing(GoodEpisodic):
    scope = "both"


class DeclaresBothAndForgetsAtTerminationOnly(GoodProduct):
    def observe(self, transition: Transition) -> Any:
        visits = self.visits
        paid = super().observe(transition)
        self.visits = {} if transition.terminated else visits
        return paid


class DeclaresAScopeThatThereIsNot(Good):
    scope = "seasonal"


class SwapsTheStates(GoodNovelty):
    novelty_of_state, novelty_of_next_state = 1.0, -0.5


class DeclaresThatItPaysForSomethingElse(GoodNovelty):
    pays_for = "both"


def halve(array: NDArray[np.uint8]) -> None:
    array //= np.uint8(2)


class ReadsTheFourthFrame(Good):
    def observe(self, transition: Transition) -> Any:
        return super().observe(transition) * (1.0 + 1e-3 * float(transition.state[3].mean()))


class PaysNaNOnSmallFrames(Good):
    def observe(self, transition: Transition) -> Any:
        return super().observe(transition) if transition.frame.shape == (84, 84) else math.nan

"""The rollouts that the checks look at, each made when a check asks for it first.

A bonus observes real play: 2,000 steps in ten games, then one new frame 300 times, then another new one once, and the
first again in two more episodes. A twin from the same seed and two bonuses restored from the saved state, one of these
in a new process, observe the first steps of it. Others play Four Rooms, where a state is one small frame and frames
recur within an episode, and take steps between frames of noise in turn. A quick check does the same with fewer steps.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from offpiste.bonuses.base import options_class
from offpiste.bonuses.contract.episodes import episodes
from offpiste.bonuses.contract.play import OTHER_SEED, ROOMS, SEED, WARM_UP_GAMES, Lengths, rooms, visits, warm_up
from offpiste.bonuses.contract.report import Check
from offpiste.bonuses.contract.rollout import Rollout, roll_out
from offpiste.bonuses.contract.specimen import Raised, SavedBonus, Specimen
from offpiste.bonuses.contract.turns import turns
from offpiste.checks import Failed
from offpiste.errors import kind_of
from offpiste.parsing import from_dict
from offpiste.types import Transition


class Rollouts:
    """A bonus under test, and its rollouts."""

    def __init__(
        self,
        kind: type[Any],
        settings: Mapping[str, Any],
        lengths: Lengths,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        self.kind = kind
        self.settings = settings
        """Its options as they were given."""
        self.lengths = lengths
        self._progress, self._observed = progress, 0

    @cached_property
    def options(self) -> Any:
        """What the bonus is called with."""
        form = options_class(self.kind)
        if not (isinstance(form, type) and dataclasses.is_dataclass(form)):
            message = f"`Options` must be a dataclass, got {kind_of(form)}; {self.advice_on_options}"
            raise Failed(message, stops="its Options are no dataclass")
        try:
            return from_dict(form, dict(self.settings), where="bonus.options.")
        except Exception as error:
            message = f"{form.__name__} cannot be made from the options given: {error}"
            raise Failed(message, stops="its options could not be made") from error

    @property
    def advice_on_options(self) -> str:
        """How options are declared."""
        return (
            f"make the `Options` of {self.kind.__name__} with @dataclass(frozen=True), or leave them out if it has none"
        )

    @cached_property
    def atari(self) -> Rollout:
        """The bonus that observes everything on Atari."""
        saved_after, compared = self.lengths.saved_after, self.lengths.compared
        steps = [*warm_up(self.lengths), *visits(self.lengths)]
        return self._roll_out(
            steps, read_only=False, save_after=saved_after, log_after=(compared, len(steps)), observed=self._observe
        )

    @cached_property
    def twin(self) -> Rollout:
        """One from the same seed, of which the state is never asked for."""
        return self._roll_out(self._compared, read_only=not self.atari.writes, observed=self._observe)

    @cached_property
    def other(self) -> Rollout:
        """One from another seed that is restored from what the first was saved as."""
        assert self.atari.saved is not None  # noqa: S101 (for the type checker: `resume` looks first)
        return self._roll_out(
            self._compared,
            seed=OTHER_SEED,
            saved=self.atari.saved,
            read_only=not self.atari.writes,
            log_after=(self.lengths.compared,),
            observed=self._observe,
        )

    @cached_property
    def rooms(self) -> Rollout:
        """One that plays Four Rooms."""
        return self._roll_out(
            rooms(self.lengths),
            ROOMS,
            read_only=False,
            save_after=self.lengths.rooms_saved_after,
            observed=self._observe,
        )

    @cached_property
    def rooms_other(self) -> Rollout:
        """One from another seed that is restored there."""
        assert self.rooms.saved is not None  # noqa: S101
        return self._roll_out(
            rooms(self.lengths), ROOMS, seed=OTHER_SEED, saved=self.rooms.saved, read_only=not self.rooms.writes
        )

    @cached_property
    def rooms_unlearned(self) -> Rollout:
        """One that plays Four Rooms and is given no batches."""
        return self._roll_out(rooms(self.lengths), ROOMS, learn=False, read_only=not self.rooms.writes)

    @cached_property
    def turns(self) -> Rollout:
        """One that takes steps in turn between frames of noise."""
        one_episode = self.declared("scope", "lifelong") == "episodic"
        steps = turns(self.lengths, one_episode=one_episode)
        return self._roll_out(steps, ROOMS, read_only=not self.rooms.writes, observed=self._observe)

    @cached_property
    def episodes(self) -> Rollout:
        """One that plays short episodes between frames of noise."""
        return self._roll_out(episodes(self.lengths), ROOMS, read_only=not self.rooms.writes, observed=self._observe)

    def declared(self, attribute: str, default: Any) -> Any:
        """Return what the class declares about itself."""
        return getattr(self.kind, attribute, default)

    @cached_property
    def _compared(self) -> Sequence[Transition]:
        return warm_up(self.lengths, self.lengths.compared)

    def _roll_out(
        self,
        steps: Sequence[Transition],
        game: str = WARM_UP_GAMES[0],
        *,
        seed: int = SEED,
        saved: SavedBonus | None = None,
        **how: Any,
    ) -> Rollout:
        """Make a bonus, restore it if it was saved, and give it the steps."""
        try:
            specimen = Specimen(self.kind, self.options, seed, game)
        except Raised as raised:
            message = f"{raised}; the class is called with its options and a Context, and nothing else"
            return Rollout(faults={Check.MAKING: message}, ended="the bonus could not be made", error=str(raised))
        if saved is not None:
            try:
                specimen.restore(saved)
            except Raised as raised:
                return Rollout(saved.observed, ended="it could not be restored", error=str(raised))
        rollout = roll_out(specimen, steps, **how)
        if saved is not None:
            rollout.error = f"once restored, {rollout.error}"
        if self.declared("can_be_negative", False):
            rollout.faults.pop(Check.SIGN, None)
        return rollout

    def _observe(self) -> None:
        """Report the share of the steps that were observed, of those that most checks look at."""
        if self._progress is None:
            return
        self._observed += 1
        lengths = self.lengths
        compared = 2 * lengths.compared - lengths.saved_after
        every = lengths.all_steps + compared + lengths.rooms_steps + len(turns(lengths))
        every += len(episodes(lengths)) if self.declared("scope", "lifelong") == "both" else 0
        self._progress(min(self._observed / every, 1.0))

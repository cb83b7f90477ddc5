"""`offpiste watch`: see what a trained agent does."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from offpiste.errors import ConfigError
from offpiste.store.storage import Folder


@dataclass(frozen=True)
class Arguments:
    """Play one episode with a run's newest weights and write a video of it, with the agent's action, the return, the
    reward and the bonus beside the screen. No display is needed.
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder or s3:// URL of the run."""
    out: Path = Path("episode.mp4")
    """File to write; its name ends in .mp4 or .gif."""
    steps: int = 1_000
    """Stop after so many agent steps."""
    seed: int = 0
    """Of sticky and random actions."""
    iteration: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Use weights and bonus as kept after this iteration instead of the newest."""
    trust_bonus: tyro.conf.FlagCreatePairsOff[bool] = False
    """Import the bonus that the run names, though no installed package declares it. Its module may do anything."""


def main(arguments: Arguments) -> int:
    """Play, write and say where."""
    from rich.console import Console
    from rich.progress import track

    from offpiste.run.video import frames_per_second, render_episode, write_video

    if arguments.steps < 1:
        raise ConfigError(f"--steps must be > 0, got {arguments.steps}")
    folder = Folder(arguments.run)
    speed = frames_per_second(folder)
    frames = render_episode(
        folder, arguments.steps, arguments.seed, arguments.iteration, trust_bonus=arguments.trust_bonus
    )
    screen = Console(stderr=True)
    seen = track(frames, "playing", arguments.steps, console=screen, transient=True, disable=not screen.is_terminal)
    count = write_video(iter(seen), arguments.out, speed)
    cut = f"; --steps {arguments.steps} ended it, unless the episode did" if count == arguments.steps else ""
    print(f"{count:,} steps, {count / speed:.0f} seconds, in {arguments.out}{cut}")
    return 0

"""`offpiste watch`: write a video of a trained agent."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from offpiste.cli.output import warn
from offpiste.errors import ConfigError
from offpiste.store.storage import Folder


@dataclass(frozen=True)
class Arguments:
    """Play episodes with a run's newest weights and write a video of them, with the score, the action, Q, the intrinsic
    reward and the cells visited beside the screen. No display is needed.
    """

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Folder or s3:// URL of the run."""
    out: Path = Path("episode.mp4")
    """File to write; its name ends in .mp4 (H.264 where ffmpeg is installed, else VP9) or .gif."""
    episodes: int = 1
    """How many to play, one after the other."""
    steps: int = 1_000
    """Max length of each in agent steps."""
    seed: int = 0
    """Seed of sticky and random actions."""
    iteration: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Use weights and bonus saved after this iteration instead of the newest."""
    trust_bonus: tyro.conf.FlagCreatePairsOff[bool] = False
    """Import the bonus that the run names even if no installed package declares it. Its module may run any code."""
    trust_world: tyro.conf.FlagCreatePairsOff[bool] = False
    """Import the world that the run names even if it is not one of ours. Its module may run any code."""


def main(arguments: Arguments) -> int:
    """Play the episode and write the video."""
    from rich.console import Console
    from rich.progress import track

    from offpiste.run.video import frames_per_second, render_episodes, write_video

    if arguments.steps < 1:
        raise ConfigError(f"--steps must be > 0, got {arguments.steps}")
    if arguments.episodes < 1:
        raise ConfigError(f"--episodes must be > 0, got {arguments.episodes}")
    folder = Folder(arguments.run)
    rate = frames_per_second(folder, trust_world=arguments.trust_world)
    frames = render_episodes(
        folder,
        arguments.steps,
        arguments.seed,
        arguments.iteration,
        episodes=arguments.episodes,
        trust_bonus=arguments.trust_bonus,
        trust_world=arguments.trust_world,
        warn=warn,
    )
    console = Console(stderr=True)
    most = arguments.steps * arguments.episodes
    shown = track(frames, "playing", most, console=console, transient=True, disable=not console.is_terminal)
    count = write_video(iter(shown), arguments.out, rate)
    limit = f"; reached --steps {arguments.steps}" if count == most else ""
    print(f"{count:,} steps, {count / rate:.0f} seconds, in {arguments.out}{limit}")
    return 0

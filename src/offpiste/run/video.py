"""A video of episodes: the screen, and beside it score, action, Q, intrinsic reward and cells visited.

The bonus is restored from the checkpoint and continues to learn, as it would in training; the run is not changed.
"""

import shutil
import subprocess
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from offpiste import arrays
from offpiste.agent.rainbow import Rainbow
from offpiste.bonuses.base import Bonus, Transition
from offpiste.bonuses.registry import is_declared
from offpiste.config import RunConfig
from offpiste.errors import ConfigError, OffpisteError
from offpiste.methods import METHODS
from offpiste.run.evaluate import agent_from, evaluation_policy, read_kept, refuse_world, weights_key
from offpiste.run.loop import build_bonus
from offpiste.run.process import prepare
from offpiste.run.video_frame import HEIGHT, WIDTH, Map, Moment, Place, VideoFrame, compose, recent
from offpiste.seeding import stream
from offpiste.store import layout
from offpiste.store.checkpoints import newest_objects, refuse_unfit
from offpiste.store.identity import read_config
from offpiste.store.outputs import replacing
from offpiste.store.storage import Folder
from offpiste.worlds.base import World
from offpiste.worlds.games import CELLS_PER_ROOM, GAMES
from offpiste.worlds.play import Policy, episode
from offpiste.worlds.registry import find, open_world

FORMATS = (".mp4", ".gif")
_MAX_DRAWN = 1e30
_SCREEN_CELLS = 20
"""As wide as the screen of the ALE, in cells."""
_RAW = ("-hide_banner", "-loglevel", "error", "-y", "-f", "rawvideo", "-pix_fmt", "bgr24")
_H264 = ("-an", "-c:v", "libx264", "-preset", "veryfast", "-crf", "20", "-pix_fmt", "yuv420p")


def render_episodes(
    folder: Folder,
    steps: int,
    seed: int,
    iteration: int | None = None,
    *,
    episodes: int = 1,
    trust_bonus: bool = False,
    trust_world: bool = False,
    warn: Callable[[str], None] = warnings.warn,
) -> Iterator[VideoFrame]:
    """Play episodes of at most `steps` agent steps each, with the newest weights or those kept after an iteration.

    The run may be a stranger's, so a bonus that no installed package declares is imported only where it is trusted.
    Weights and bonus are of the same checkpoint; `warn` says if that is not the newest, because it is broken.
    """
    config = read_config(folder)
    refuse_world(config.game, trust_world=trust_world)
    name = config.bonus.name
    if ":" in name and not trust_bonus and not is_declared(name):
        raise ConfigError(
            f"the run names the bonus {name!r}, which no installed package declares, so it was not imported: its "
            "module could do anything. If you know it, give --trust-bonus"
        )
    config = replace(config, machine=replace(config.machine, device="cpu"))
    prepare(config.machine)
    world = open_world(config.game, config.world, stream(seed, "evaluation game"), config.seed)
    bonus = build_bonus(config, world, stream(seed, "video bonus"))
    weights = weights_key(iteration)
    model = layout.BONUS if iteration is None else layout.milestone(iteration, "bonus")
    found = read_kept(folder, [weights] if bonus is None else [weights, model], iteration, warn)
    agent = agent_from(folder, config, world, found[weights], iteration)
    if bonus is not None:
        with refuse_unfit(folder):
            bonus.load_state(arrays.unpack(found[model]))
    observe = None if bonus is None else partial(_observe, folder, name, bonus)
    policy, known = evaluation_policy(config, agent, seed), _visited_in_run(folder)
    return chain.from_iterable(
        _play(config, world, agent, policy, observe, steps, number, known) for number in range(1, episodes + 1)
    )


def _observe(folder: Folder, name: str, bonus: Bonus, transition: Transition) -> float:
    """Return the intrinsic reward; an error of a bonus of ours is one of the state that it was restored from."""
    with nullcontext() if ":" in name else refuse_unfit(folder):
        return bonus.observe(transition)


def _visited_in_run(folder: Folder) -> NDArray[np.int64]:
    """Return the cells that training has visited, by number; none where the checkpoint does not say."""
    try:
        cells = arrays.unpack(newest_objects(folder, [layout.CELLS], lambda _: None)[layout.CELLS])
        return np.asarray(cells["cell"], np.int64)
    except (KeyError, TypeError, ValueError, OffpisteError):
        return np.zeros(0, np.int64)


def _play(
    config: RunConfig,
    world: World,
    agent: Rainbow,
    policy: Policy,
    observe: Callable[[Transition], float] | None,
    steps: int,
    number: int,
    known: NDArray[np.int64],
) -> Iterator[VideoFrame]:
    total, intrinsic = 0.0, recent()
    game, visited = find(config.game), Counter[tuple[int, int, int]]()
    method = METHODS[config.method].label if config.method in METHODS else config.method
    name = game.title or config.game.replace("_", " ").title()
    before: list[tuple[Any, list[float], Any]] = []

    def policy_that_records(state: NDArray[np.uint8]) -> int:
        before.append((world.render(), agent.action_values(state).tolist(), world.ram))
        return policy(state)

    for transition in islice(episode(world, policy_that_records), steps):
        screen, values, ram = before.pop()  # as they were when the action was chosen
        if observe is not None:
            intrinsic.append(float(np.clip(np.nan_to_num(observe(transition)), -_MAX_DRAWN, _MAX_DRAWN)))
        total += transition.reward
        shown = None
        if game.location is not None:
            at = game.location.position(ram)
            visited[at] += 1
            shown = _map(config.game, at, visited, known, y_up=game.location.y_up)
        yield compose(
            Moment(
                screen=screen,
                game=name,
                method=method,
                episode=number,
                step=transition.episode_step,
                score=total,
                reward=transition.reward,
                action=transition.action,
                action_name=world.action_names[transition.action],
                q_values=values,
                intrinsic=list(intrinsic) if observe is not None else None,
                map=shown,
            )
        )


def _map(
    game: str, at: tuple[int, int, int], visited: Counter[tuple[int, int, int]], known: NDArray[np.int64], *, y_up: bool
) -> Map:
    """Return the map of the room that the player is in; in small worlds, where a room is no place, of all."""
    apart = game in GAMES
    here: Counter[Place] = Counter()
    for (room, row, column), count in visited.items():
        if room == at[0] or not apart:
            here[row, column] += count
    rooms, within = known // CELLS_PER_ROOM, known % CELLS_PER_ROOM
    own = within[rooms == at[0]] if apart else within
    run = dict.fromkeys(zip((own % 32).tolist(), (own // 32).tolist(), strict=True), 1)
    return Map(at[1:], here, run, y_up, least=_SCREEN_CELLS if apart else 1)


def write_video(frames: Iterator[VideoFrame], file: Path, frames_per_second: int) -> int:
    """Write the frames as MP4 or GIF, by the file's suffix; return how many there were.

    MP4 is H.264 where ffmpeg is installed and VP9 elsewhere, which takes longer; browsers play both.
    """
    if file.suffix not in FORMATS:
        raise ConfigError(f"a video must be {' or '.join(FORMATS)}, got {file.name}")
    write = _write_gif if file.suffix == ".gif" else _write_h264 if _has_h264() else _write_vp9
    with replacing(file.parent) as new:
        return write(frames, new / file.name, frames_per_second)


def _has_h264() -> bool:
    program = shutil.which("ffmpeg")
    if program is None:
        return False
    asked = subprocess.run([program, "-hide_banner", "-encoders"], capture_output=True, text=True, check=False)
    return "libx264" in asked.stdout


def _write_h264(frames: Iterator[VideoFrame], file: Path, frames_per_second: int) -> int:
    size, rate = f"{WIDTH}x{HEIGHT}", str(frames_per_second)
    command = ["ffmpeg", *_RAW, "-s", size, "-r", rate, "-i", "-", *_H264, "-movflags", "+faststart"]
    count = 0
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen([*command, str(file.absolute())], stdin=subprocess.PIPE, stderr=said) as ffmpeg,
    ):
        with suppress(BrokenPipeError):  # it says why
            for frame in frames:
                ffmpeg.stdin.write(frame.tobytes())  # type: ignore[union-attr]
                count += 1
            ffmpeg.stdin.close()  # type: ignore[union-attr]
        if ffmpeg.wait():
            said.seek(0)
            why = said.read().decode(errors="replace").strip()
            raise OffpisteError(f"{file.name} cannot be written by ffmpeg: {why}; try a name that ends in .gif")
    return count


def _write_vp9(frames: Iterator[VideoFrame], file: Path, frames_per_second: int) -> int:
    size = (WIDTH, HEIGHT)
    writer = cv2.VideoWriter(str(file), cv2.VideoWriter.fourcc(*"vp09"), frames_per_second, size)
    if not writer.isOpened():
        raise OffpisteError(f"{file.name} cannot be written as MP4 here; try a name that ends in .gif")
    count = 0
    for frame in frames:
        writer.write(frame)
        count += 1
    writer.release()
    return count


def _write_gif(frames: Iterator[VideoFrame], file: Path, frames_per_second: int) -> int:
    reduced = [
        Image.fromarray(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB)).quantize(
            method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE
        )
        for frame in frames
    ]
    reduced[0].save(file, save_all=True, append_images=reduced[1:], duration=1000 // frames_per_second, loop=0)
    return len(reduced)


def frames_per_second(folder: Folder, *, trust_world: bool = False) -> int:
    """Return the agent steps per second of video: the speed at which a person plays."""
    config = read_config(folder)
    refuse_world(config.game, trust_world=trust_world)
    game = open_world(config.game, config.world, stream(0, "video"), config.seed)
    return int(game.metadata["render_fps"]) // config.world.frame_skip

"""A video of one episode: the screen, and beside it the action, return, Q, reward, intrinsic reward and cells visited.

The bonus is restored from the checkpoint and continues to learn, as it would in training; the run is not changed.
"""

import math
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import islice
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
from offpiste.run.evaluate import agent_from, evaluation_policy, read_kept, weights_key
from offpiste.run.parts import build_bonus
from offpiste.run.process import prepare
from offpiste.seeding import stream
from offpiste.store import layout
from offpiste.store.checkpoints import refuse_unfit
from offpiste.store.outputs import replacing
from offpiste.store.run_folder import read_config
from offpiste.store.storage import Folder
from offpiste.worlds.base import World
from offpiste.worlds.play import Policy, episode
from offpiste.worlds.registry import find, open_world

FORMATS = (".mp4", ".gif")
HEIGHT, SCREEN_WIDTH, PANEL_WIDTH = 420, 480, 320
CHART_STEPS = 150
_MAP_PIXELS = 128
_MAX_DRAWN = 1e30
_FONT = cv2.FONT_HERSHEY_SIMPLEX
_WHITE, _GREY, _ORANGE, _BLUE = (255, 255, 255), (160, 160, 160), (0, 159, 230), (233, 180, 86)

VideoFrame = NDArray[np.uint8]


def render_episode(
    folder: Folder,
    steps: int,
    seed: int,
    iteration: int | None = None,
    *,
    trust_bonus: bool = False,
    warn: Callable[[str], None] = warnings.warn,
) -> Iterator[VideoFrame]:
    """Play one episode of at most `steps` agent steps, with the newest weights or those kept after an iteration.

    The run may be a stranger's, so a bonus that no installed package declares is imported only where it is trusted.
    Weights and bonus are of the same checkpoint; `warn` says if that is not the newest, because it is broken.
    """
    config = read_config(folder)
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
    return _play(config, world, agent, evaluation_policy(config, agent, seed), observe, steps)


def _observe(folder: Folder, name: str, bonus: Bonus, transition: Transition) -> float:
    """Return the intrinsic reward; an error of a bonus of ours is one of the state that it was restored from."""
    with nullcontext() if ":" in name else refuse_unfit(folder):
        return bonus.observe(transition)


def _play(
    config: RunConfig,
    world: World,
    agent: Rainbow,
    policy: Policy,
    observe: Callable[[Transition], float] | None,
    steps: int,
) -> Iterator[VideoFrame]:
    total, rewards, bonuses = 0.0, deque([0.0], CHART_STEPS), deque([0.0], CHART_STEPS)
    location, visited = find(config.game).location, Counter[tuple[int, int, int]]()
    before: list[tuple[Any, float, Any]] = []

    def policy_that_records(state: NDArray[np.uint8]) -> int:
        before.append((world.render(), float(agent.action_values(state).max()), world.ram))
        return policy(state)

    for transition in islice(episode(world, policy_that_records), steps):
        screen, value, ram = before.pop()  # as they were when the action was chosen
        intrinsic = 0.0 if observe is None else observe(transition)
        total += transition.reward
        rewards.append(transition.reward)
        bonuses.append(float(np.clip(np.nan_to_num(intrinsic), -_MAX_DRAWN, _MAX_DRAWN)))
        texts = [
            config.game,
            config.method,
            f"step {transition.episode_step:,}",
            f"action {world.action_names[transition.action].lower()}",
            f"Q {value:.3g}",
            f"return {total:g}",
            f"reward {transition.reward:g}",
            f"bonus {intrinsic:.3g}" if observe is not None else "no bonus",
        ]
        frame = _compose(screen, texts, rewards, bonuses if observe is not None else None)
        if location is not None:
            cell = location.position(ram)
            visited[cell] += 1
            _map(frame, visited, cell, y_up=location.y_up)
        yield frame


def write_video(frames: Iterator[VideoFrame], file: Path, frames_per_second: int) -> int:
    """Write the frames as MP4 (VP9, which browsers play) or GIF, by the file's suffix; return how many there were."""
    if file.suffix not in FORMATS:
        raise ConfigError(f"a video must be {' or '.join(FORMATS)}, got {file.name}")
    with replacing(file.parent) as new:
        return (_write_gif if file.suffix == ".gif" else _write_mp4)(frames, new / file.name, frames_per_second)


def _write_mp4(frames: Iterator[VideoFrame], file: Path, frames_per_second: int) -> int:
    size = (SCREEN_WIDTH + PANEL_WIDTH, HEIGHT)
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


def frames_per_second(folder: Folder) -> int:
    """Return the agent steps per second of video: the speed at which a person plays."""
    config = read_config(folder)
    game = open_world(config.game, config.world, stream(0, "video"), config.seed)
    return int(game.metadata["render_fps"]) // config.world.frame_skip


def _compose(screen: Any, texts: list[str], rewards: deque[float], bonuses: deque[float] | None) -> VideoFrame:
    """Return the screen with the panel to its right, as BGR."""
    frame = np.zeros((HEIGHT, SCREEN_WIDTH + PANEL_WIDTH, 3), np.uint8)
    shown = cv2.cvtColor(screen, cv2.COLOR_RGB2BGR)
    width = HEIGHT if screen.shape[0] == screen.shape[1] else SCREEN_WIDTH
    left = (SCREEN_WIDTH - width) // 2
    frame[:, left : left + width] = cv2.resize(shown, (width, HEIGHT), interpolation=cv2.INTER_NEAREST)
    for line, text in enumerate(texts):
        colour = _WHITE if line < 2 else _GREY
        cv2.putText(frame, text, (SCREEN_WIDTH + 16, 30 + 23 * line), _FONT, 0.52, colour, 1, cv2.LINE_AA)
    _chart(frame, "reward", list(rewards), 232, _ORANGE)
    if bonuses is not None:
        _chart(frame, "bonus", list(bonuses), 330, _BLUE)
    return frame


def _map(frame: VideoFrame, visited: Counter[tuple[int, int, int]], at: tuple[int, int, int], *, y_up: bool) -> None:
    """Draw the cells of the current room that the episode has visited, brighter where more often, and the player's."""
    cells = {(row, column): count for (room, row, column), count in visited.items() if room == at[0]}
    largest = max(max(cell) for cell in cells)
    extent = 8 * 2 ** math.ceil(math.log2(max(1.0, (largest + 1) / 8)))  # 8, 16 or 32 cells
    shades = np.full((extent, extent, 3), 30, np.uint8)
    for cell, count in cells.items():
        shades[cell] = 90 + min(120, 30 * int(math.log2(count)))
    shades[at[1:]] = _ORANGE
    if y_up:
        shades = shades[::-1]
    top, left = 76, SCREEN_WIDTH + PANEL_WIDTH - _MAP_PIXELS - 16
    shown = cv2.resize(shades, (_MAP_PIXELS, _MAP_PIXELS), interpolation=cv2.INTER_NEAREST)
    frame[top : top + _MAP_PIXELS, left : left + _MAP_PIXELS] = shown
    cv2.putText(frame, f"visited: {len(cells)} cells", (left, top - 8), _FONT, 0.42, _GREY, 1, cv2.LINE_AA)


def _chart(frame: VideoFrame, name: str, values: list[float], top: int, colour: tuple[int, int, int]) -> None:
    """Draw the last values as a curve over a line at zero, with their range beside the name."""
    left, width, height = SCREEN_WIDTH + 16, PANEL_WIDTH - 32, 60
    low, high = min(0.0, *values), max(0.0, *values)
    title = f"{name}, last {CHART_STEPS} steps: {low:.3g} to {high:.3g}"
    cv2.putText(frame, title, (left, top), _FONT, 0.42, _GREY, 1, cv2.LINE_AA)

    def level(value: float) -> int:
        return round(top + 12 + height * (high - value) / ((high - low) or 1.0))

    cv2.line(frame, (left, level(0.0)), (left + width, level(0.0)), _GREY, 1)
    points = [(left + width * index // CHART_STEPS, level(value)) for index, value in enumerate(values)]
    curve = np.array(points, np.int32)
    cv2.polylines(frame, [curve], isClosed=False, color=colour, thickness=1, lineType=cv2.LINE_AA)

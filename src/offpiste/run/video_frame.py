"""One frame of a video: the game at its true aspect, and beside it score, action, Q, intrinsic reward and a map."""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

WIDTH, HEIGHT, PANEL_WIDTH = 960, 540, 300
CHART_STEPS = 150
LEFT = WIDTH - PANEL_WIDTH + 14
"""Where the panel's content begins; it is `INSIDE` wide."""
INSIDE = PANEL_WIDTH - 28
JOYSTICK, Q_BARS, CHART, MAP = (96, 78), (96, 78), (206, 92), (330, 200)
"""Top and height of the parts of the panel."""
_ALE_WIDTH, _TELEVISION = 160, 4 / 3
"""A screen of the ALE is as wide as this, of pixels that a television shows wider than high."""
_LARGE = 2.0
"""Standard deviations above the mean from which an intrinsic reward is marked."""

VideoFrame = NDArray[np.uint8]
Colour = tuple[int, int, int]
"""Blue, green, red."""
GROUND: Colour = (26, 22, 20)
WHITE: Colour = (238, 235, 233)
GREY: Colour = (178, 169, 162)
DIM: Colour = (62, 54, 48)
ORANGE: Colour = (0, 159, 230)
BLUE: Colour = (233, 180, 86)
Place = tuple[int, int]
"""Row and column of a cell."""


@dataclass(frozen=True)
class Moment:
    """What a frame shows."""

    screen: NDArray[np.uint8]
    game: str
    method: str
    episode: int
    step: int
    score: float
    reward: float
    action: int
    action_name: str
    q_values: Sequence[float]
    intrinsic: Sequence[float] | None
    """Of the last steps, the newest last; None without a bonus."""
    map: "Map | None"


@dataclass(frozen=True)
class Map:
    """Where the player is, was in this episode, and was in the whole run."""

    at: Place
    episode: Mapping[Place, int]
    run: Mapping[Place, int]
    y_up: bool
    least: int
    """Rows and columns that are shown at least, so that few visits do not look like the whole screen."""


def compose(moment: Moment) -> VideoFrame:
    """Return the frame, as blue, green and red."""
    frame = np.full((HEIGHT, WIDTH, 3), GROUND, np.uint8)
    _screen(frame, moment.screen)
    _text(frame, moment.game, LEFT, 12, 24, WHITE)
    _text(frame, f"{moment.method}, episode {moment.episode}", LEFT, 42, 16, GREY)
    _text(frame, f"score {moment.score:g}", LEFT, 66, 20, ORANGE if moment.reward else WHITE)
    _text(frame, f"step {moment.step:,}", WIDTH - 14, 69, 16, GREY, right=True)
    _joystick(frame, moment.action_name)
    _q_bars(frame, moment.q_values, moment.action)
    if moment.intrinsic is not None:
        _chart(frame, moment.intrinsic)
    else:
        _text(frame, "no bonus", LEFT, CHART[0], 16, GREY)
    if moment.map is not None:
        _map(frame, moment.map)
    return frame


def _screen(frame: VideoFrame, screen: NDArray[np.uint8]) -> None:
    rows, columns = screen.shape[:2]
    aspect = _TELEVISION if columns == _ALE_WIDTH else columns / rows
    room = WIDTH - PANEL_WIDTH
    width, height = (room, round(room / aspect)) if room / aspect <= HEIGHT else (round(HEIGHT * aspect), HEIGHT)
    left, top = (room - width) // 2, (HEIGHT - height) // 2
    shown = cv2.cvtColor(screen, cv2.COLOR_RGB2BGR)
    frame[top : top + height, left : left + width] = cv2.resize(shown, (width, height), interpolation=cv2.INTER_NEAREST)


def _joystick(frame: VideoFrame, name: str) -> None:
    """Draw a stick that leans where the action goes, with a button; an action of another kind by its name."""
    top, height = JOYSTICK
    middle, radius = (LEFT + height // 2, top + height // 2), height // 2
    said = name.upper()
    known = any(word in said for word in ("UP", "DOWN", "LEFT", "RIGHT", "FIRE", "NOOP"))
    cv2.circle(frame, middle, radius, DIM, -1, cv2.LINE_AA)
    if not known:
        _text(frame, name, middle[0] - 5 * len(name), middle[1] - 12, 20, WHITE)
        return
    across = ("RIGHT" in said) - ("LEFT" in said)
    down = ("DOWN" in said) - ("UP" in said)
    length = math.hypot(across, down) or 1.0
    reach = 0.62 * radius
    end = (round(middle[0] + reach * across / length), round(middle[1] + reach * down / length))
    cv2.line(frame, middle, end, WHITE, 8, cv2.LINE_AA)
    cv2.circle(frame, end, 11, ORANGE if "FIRE" in said else WHITE, -1, cv2.LINE_AA)


def _q_bars(frame: VideoFrame, values: Sequence[float], chosen: int) -> None:
    """Draw a bar for each action, from the lowest Q to the highest, that of the chosen action bright."""
    top, height = Q_BARS
    left = LEFT + height + 18
    width = LEFT + INSIDE - left
    low, high = min(values), max(values)
    step = width / len(values)
    _text(frame, f"Q {high:.3g}", LEFT + INSIDE, top - 4, 16, GREY, right=True)
    for index, value in enumerate(values):
        share = 0.15 + 0.85 * (value - low) / ((high - low) or 1.0)
        tall = round((height - 20) * share)
        x = round(left + index * step)
        corners = (x, top + height - tall), (round(x + max(2.0, step - 3)), top + height)
        cv2.rectangle(frame, *corners, ORANGE if index == chosen else DIM, -1)


def _chart(frame: VideoFrame, values: Sequence[float]) -> None:
    """Draw the intrinsic reward of the last steps, with a dot where it is large beside the others."""
    top, height = CHART
    _text(frame, f"bonus {values[-1]:.3g}", LEFT, top - 4, 16, BLUE)
    shown = np.asarray(values, np.float64)
    low, high = min(0.0, float(shown.min())), max(0.0, float(shown.max()))
    _text(frame, f"max {high:.2g}", LEFT + INSIDE, top - 4, 16, GREY, right=True)
    floor, roof = top + height, top + 24
    ys = floor - (floor - roof) * (shown - low) / ((high - low) or 1.0)
    xs = LEFT + INSIDE * np.arange(len(shown)) / CHART_STEPS
    points = np.stack([xs, ys], axis=1).round().astype(np.int32)
    zero = round(floor - (floor - roof) * (0.0 - low) / ((high - low) or 1.0))
    cv2.line(frame, (LEFT, zero), (LEFT + INSIDE, zero), DIM, 1)
    cv2.polylines(frame, [points], isClosed=False, color=BLUE, thickness=2, lineType=cv2.LINE_AA)
    for x, y in points[shown > shown.mean() + _LARGE * shown.std()]:
        cv2.circle(frame, (int(x), int(y)), 4, WHITE, -1, cv2.LINE_AA)


def _map(frame: VideoFrame, shown: Map) -> None:
    """Draw the cells of the episode, brighter where more often, over those of the whole run, and the player's."""
    top, height = MAP
    cells = {*shown.run, *shown.episode, shown.at}
    rows, columns = (max(cell[axis] for cell in cells) + 1 for axis in (0, 1))
    rows, columns = max(rows, columns // 4, shown.least), max(columns, rows // 4, shown.least)
    shades = np.full((rows, columns, 3), (36, 31, 28), np.uint8)
    for cell in shown.run:
        shades[cell] = DIM
    for cell, count in shown.episode.items():
        bright = min(1.0, 0.45 + 0.11 * math.log2(count))
        shades[cell] = [round(part * bright) for part in BLUE]
    shades[shown.at] = ORANGE
    if shown.y_up:
        shades = shades[::-1]
    side = min((height - 24) / rows, INSIDE / columns)
    size = (max(1, round(columns * side)), max(1, round(rows * side)))
    large = cv2.resize(shades, size, interpolation=cv2.INTER_NEAREST)
    frame[top + 24 : top + 24 + size[1], LEFT : LEFT + size[0]] = large
    count = len(shown.episode)
    _text(frame, f"{count} cell{'s' * (count != 1)} visited", LEFT, top - 2, 16, GREY)


def _text(frame: VideoFrame, text: str, x: int, y: int, size: int, colour: Colour, *, right: bool = False) -> None:
    """Write text with its upper left corner there, or its upper right one."""
    mask = _letters(text, size)
    x = x - mask.shape[1] if right else x
    part = frame[y : y + mask.shape[0], x : x + mask.shape[1]]
    mask = mask[: part.shape[0], : part.shape[1], None]
    part[:] = (part * (1 - mask) + np.array(colour) * mask).astype(np.uint8)


@lru_cache(maxsize=512)
def _letters(text: str, size: int) -> NDArray[np.float64]:
    """Return how much of each pixel text covers."""
    font = ImageFont.load_default(size)
    _, _, width, height = font.getbbox(text or " ")
    image = Image.new("L", (math.ceil(width) + 1, math.ceil(height) + 1))
    ImageDraw.Draw(image).text((0, 0), text, fill=255, font=font)
    return np.asarray(image, np.float64) / 255


def recent() -> deque[float]:
    """Return an empty list of the last steps."""
    return deque(maxlen=CHART_STEPS)

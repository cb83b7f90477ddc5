from collections.abc import Callable

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from offpiste import arrays
from offpiste.agent.frames import Chunk, FrameLog

SHAPE = (6, 5)
SLOTS = 16  # half of them train the dictionary, and zstd asks for seven

Frames = NDArray[np.uint8]


@pytest.fixture(autouse=True, params=["raw", "compressed"])
def both_ways_to_read(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every test with small frames, which are also kept raw, and with large ones, which are not."""
    if request.param == "compressed":
        monkeypatch.setattr("offpiste.agent.frames.RAW_BYTES", 0)


@pytest.fixture
def dictionary_every_second_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offpiste.agent.frames.DICTIONARY_CHUNKS", 2)


def test_frames_are_read_by_number_in_the_order_given() -> None:
    log, frames = FrameLog(100, SHAPE, 4), noise(6)
    fill(log, frames)
    out = np.empty((4, *SHAPE), np.uint8)
    log.read(np.array([5, 0, 3, 5]), 1, out)
    np.testing.assert_array_equal(out, frames[[5, 0, 3, 5]])


@pytest.mark.parametrize("count", [1, SLOTS - 1, SLOTS, SLOTS + 1, 2 * SLOTS, 3 * SLOTS - 1, 3 * SLOTS])
def test_every_frame_survives_on_both_sides_of_a_chunk_border(count: int) -> None:
    log, frames = FrameLog(1_000, SHAPE, SLOTS), noise(count)
    fill(log, frames)
    assert log.count == count
    assert bool(log.dictionaries) == (count >= SLOTS)
    np.testing.assert_array_equal(all_of(log, 0), frames)


@settings(max_examples=20)
@given(
    slots=st.integers(1, 20),
    window=st.integers(1, 60),
    count=st.integers(1, 90),
    kind=st.sampled_from(["noise", "blank", "few"]),
)
def test_the_window_can_be_read_at_any_time(slots: int, window: int, count: int, kind: str) -> None:
    frames = {"noise": noise, "blank": blank, "few": few_values}[kind](count)
    log = FrameLog(window, SHAPE, slots)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("offpiste.agent.frames.DICTIONARY_CHUNKS", 3)
        for number, frame in enumerate(frames):
            log.append(frame)
            if number % 7 == 0 or number == count - 1:
                start = max(0, log.count - window)
                np.testing.assert_array_equal(all_of(log, start), frames[start : log.count])


def test_a_frame_may_have_any_memory_layout() -> None:
    log, wide = FrameLog(10, SHAPE, 4), noise(1, (5, 12))[0]
    frames = [wide.T[::2], np.asfortranarray(wide.T[:6]), wide.T[::-2]]
    for frame in frames:
        log.append(frame)
    np.testing.assert_array_equal(all_of(log, 0), frames)


def test_a_caller_may_reuse_its_array() -> None:
    log, frame = FrameLog(10, SHAPE, 4), noise(1)[0]
    before = frame.copy()
    log.append(frame)
    frame[:] = 0
    np.testing.assert_array_equal(all_of(log, 0)[0], before)


@pytest.mark.usefixtures("dictionary_every_second_chunk")
def test_a_chunk_never_changes_once_it_is_full() -> None:
    log = FrameLog(1_000, SHAPE, SLOTS)
    seen: dict[int, tuple[int, bytes, bytes]] = {}
    for frame in few_values(6 * SLOTS + 3):
        log.append(frame)
        for number, chunk in log.chunks.items():
            now = (chunk.dictionary, bytes(chunk.data), chunk.bounds.tobytes())
            assert seen.setdefault(number, now) == now
    assert list(seen) == [0, 1, 2, 3, 4, 5]


@pytest.mark.usefixtures("dictionary_every_second_chunk")
def test_a_chunk_names_the_latest_dictionary_trained_before_it() -> None:
    log = FrameLog(1_000, SHAPE, SLOTS)
    fill(log, few_values(5 * SLOTS))
    # Chunks 0, 2 and 4 train dictionaries 1, 3 and 5.
    assert [log.chunks[number].dictionary for number in range(5)] == [0, 1, 1, 3, 3]
    assert sorted(log.dictionaries) == [1, 3, 5]


def test_chunks_outside_the_window_are_dropped_and_those_inside_kept() -> None:
    log, frames = FrameLog(10, SHAPE, 4), noise(40)
    for count, frame in enumerate(frames, start=1):
        log.append(frame)
        oldest_of_window = max(0, count - 10)
        full = count // 4
        inside = set(range(oldest_of_window // 4, full))
        assert inside <= set(log.chunks)
        if count % 4 == 0:
            assert inside == set(log.chunks)
    assert sorted(log.chunks) == [7, 8, 9]  # frames 30 to 39 are the window; 28 and 29 share a chunk with 30


@pytest.mark.usefixtures("dictionary_every_second_chunk")
def test_dictionaries_that_no_chunk_names_are_dropped() -> None:
    log, frames = FrameLog(2 * SLOTS, SHAPE, SLOTS), few_values(12 * SLOTS)
    for frame in frames:
        log.append(frame)
        named = {chunk.dictionary for chunk in log.chunks.values()} - {0}
        assert named <= set(log.dictionaries) <= named | {log.state()["dictionary"]}
    assert sorted(log.chunks) == [10, 11]
    assert sorted(log.dictionaries) == [9, 11]
    np.testing.assert_array_equal(all_of(log, 10 * SLOTS), frames[10 * SLOTS :])


@pytest.mark.usefixtures("dictionary_every_second_chunk")
@pytest.mark.parametrize("count", [0, 5, SLOTS, SLOTS + 1, 4 * SLOTS, 5 * SLOTS + 7])
def test_a_restored_log_holds_and_continues_to_write_the_same_bytes(count: int) -> None:
    window = 3 * SLOTS
    log, frames = FrameLog(window, SHAPE, SLOTS), few_values(count + 3 * SLOTS + 2)
    fill(log, frames[:count])
    other = restored(log, window)
    start = max(0, count - window)
    np.testing.assert_array_equal(all_of(other, start), frames[start:count])
    assert contents(other) == contents(log)
    for frame in frames[count:]:
        log.append(frame)
        other.append(frame)
        assert contents(other) == contents(log)
    start = other.count - window
    np.testing.assert_array_equal(all_of(other, start), frames[start:])


@pytest.mark.parametrize("slots", [1, 2, 5, 12])
def test_a_replay_too_tiny_to_train_a_dictionary_still_works(slots: int) -> None:
    with pytest.raises(zstandard.ZstdError):  # that is: up to six samples are too few
        zstandard.train_dictionary(65_536, [bytes(30)] * (slots // 2))
    log, frames = FrameLog(1_000, SHAPE, slots), noise(5 * slots)
    fill(log, frames)
    assert log.dictionaries == {}
    assert {chunk.dictionary for chunk in log.chunks.values()} == {0}
    np.testing.assert_array_equal(all_of(log, 0), frames)


@pytest.mark.usefixtures("dictionary_every_second_chunk")
@pytest.mark.parametrize("sides", [(1, 2), (2, 2), (3, 3), (8, 8)])
@pytest.mark.parametrize("make", ["noise", "blank", "few_values"])
def test_frames_that_make_a_poor_dictionary_survive_it(sides: tuple[int, int], make: str) -> None:
    makers: dict[str, Callable[[int, tuple[int, int]], Frames]] = {
        "noise": noise,
        "blank": blank,
        "few_values": few_values,
    }
    frames = np.concatenate([makers[make](SLOTS, sides), noise(3 * SLOTS, sides)])
    log = FrameLog(1_000, sides, SLOTS)
    fill(log, frames)
    np.testing.assert_array_equal(all_of(log, 0), frames)


def test_a_failed_training_leaves_the_dictionary_before_it_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offpiste.agent.frames.DICTIONARY_CHUNKS", 1)
    log, frames = FrameLog(1_000, SHAPE, SLOTS), few_values(3 * SLOTS)
    fill(log, frames[:SLOTS])

    def fail(size: int, samples: list[bytes]) -> None:
        raise zstandard.ZstdError("cannot train dict")

    monkeypatch.setattr(zstandard, "train_dictionary", fail)
    fill(log, frames[SLOTS:])
    assert [log.chunks[number].dictionary for number in range(3)] == [0, 1, 1]
    np.testing.assert_array_equal(all_of(log, 0), frames)


def test_frames_of_a_game_compress_ten_times_or_more_once_the_dictionary_exists() -> None:
    log, frames = FrameLog(1_000, (84, 84), 64), game(3 * 64)
    fill(log, frames)
    plain, *with_dictionary = (64 * 84 * 84 / len(log.chunks[number].data) for number in range(3))
    assert min(with_dictionary) >= 10.0
    assert min(with_dictionary) > 1.2 * plain
    np.testing.assert_array_equal(all_of(log, 0), frames)


def noise(count: int, shape: tuple[int, int] = SHAPE) -> Frames:
    return np.random.default_rng(3).integers(0, 256, (count, *shape), dtype=np.uint8)


def few_values(count: int, shape: tuple[int, int] = SHAPE) -> Frames:
    return np.random.default_rng(4).choice(np.array([0, 200], np.uint8), (count, *shape), p=[0.8, 0.2])


def blank(count: int, shape: tuple[int, int] = SHAPE) -> Frames:
    return np.zeros((count, *shape), np.uint8)


def game(count: int) -> Frames:
    """Six textured sprites that wander over a room of tiles, below a line that blinks."""
    generator = np.random.default_rng(5)
    rows, columns = np.mgrid[:84, :84]
    room = ((rows // 12 * 37 + columns // 14 * 53) % 97 + 40).astype(np.uint8)
    sprites = generator.integers(0, 256, (6, 8, 8), dtype=np.uint8)
    positions = generator.integers(0, 76, (6, 2))
    frames = np.empty((count, 84, 84), np.uint8)
    for frame in frames:
        positions = (positions + generator.integers(-2, 3, (6, 2))) % 76
        frame[:] = room
        frame[2:6, 2:30] = generator.integers(0, 2) * 200
        for sprite, (row, column) in zip(sprites, positions, strict=True):
            frame[row : row + 8, column : column + 8] = sprite
    return frames


def fill(log: FrameLog, frames: Frames) -> None:
    for frame in frames:
        log.append(frame)


def all_of(log: FrameLog, start: int) -> Frames:
    shape = log._shape
    out = np.full((log.count - start, *shape), 123, np.uint8)
    log.read(np.array([start]), log.count - start, out)
    return out


def contents(log: FrameLog) -> tuple[object, ...]:
    state = log.state()
    return (
        {number: (chunk.dictionary, bytes(chunk.data), chunk.bounds.tobytes()) for number, chunk in log.chunks.items()},
        log.dictionaries,
        (state["count"], state["dictionary"], state["data"].tobytes(), state["bounds"].tobytes()),
    )


def restored(log: FrameLog, window: int) -> FrameLog:
    """Bring a log to bytes and back, as a checkpoint does."""
    chunks = {}
    for number, chunk in log.chunks.items():
        packed = arrays.pack(
            {
                "dictionary": chunk.dictionary,
                "data": np.frombuffer(chunk.data, np.uint8),
                "bounds": chunk.bounds,
            }
        )
        back = arrays.unpack(packed)
        chunks[number] = Chunk(back["dictionary"], back["data"].data, back["bounds"])
    other = FrameLog(window, log._shape, log.chunk_slots)
    other.load_state(arrays.unpack(arrays.pack(log.state())), chunks, dict(log.dictionaries))
    return other

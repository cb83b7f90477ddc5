"""The replay's frames: each stored once, compressed by zstd, in the bytes that a checkpoint writes.

Frames are numbered from 0 and stored in chunks of a fixed size; a full chunk is immutable. The first chunk is
compressed without a dictionary (about 10 times smaller) and trains one; later chunks name the dictionary that they use
(18 to 37 times smaller). Every 64 chunks a new one is trained, so that scenes found later compress as well. Small
frames are also kept uncompressed: decompressing them would take a quarter of an agent's time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import zstandard
from numpy.typing import NDArray

LEVEL = 3
DICTIONARY_BYTES = 65_536
DICTIONARY_CHUNKS = 64
"""Chunks between two dictionaries."""
RAW_BYTES = 64 * 2**20
"""A log whose frames fit into this many bytes keeps them uncompressed too."""


@dataclass
class Chunk:
    """Compressed frames, concatenated; frame k lies between bounds k and k + 1."""

    dictionary: int
    data: bytes | memoryview
    bounds: NDArray[np.uint32]

    def compressed(self, slot: int) -> bytes:
        """Return one frame, compressed."""
        return bytes(self.data[self.bounds[slot] : self.bounds[slot + 1]])


class _Piece(NamedTuple):
    """Compressed frames that are adjacent in memory, and their positions in the output."""

    data: bytes | memoryview
    sizes: NDArray[np.int64]
    positions: NDArray[np.int64]


class FrameLog:
    """The latest frames of a run; older ones are dropped a chunk at a time."""

    def __init__(self, window: int, shape: tuple[int, int], chunk_slots: int) -> None:
        """Keep at least the latest `window` frames."""
        self.count = 0
        self.chunk_slots = chunk_slots
        self.chunks: dict[int, Chunk] = {}
        self.dictionaries: dict[int, bytes] = {}
        self._window = window
        self._shape = shape
        self._frame_bytes = shape[0] * shape[1]
        self._open: list[bytes] = []
        self._open_dictionary = 0
        self._compressor = _compressor(None)
        self._decompressors = {0: zstandard.ZstdDecompressor()}
        raw_slots = window + chunk_slots  # the most frames that chunks hold at once
        fits = raw_slots * self._frame_bytes <= RAW_BYTES
        self._raw = np.zeros((raw_slots, *shape), np.uint8) if fits else None

    def append(self, frame: NDArray[np.uint8]) -> None:
        """Compress and store one frame."""
        self._open.append(self._compressor.compress(np.ascontiguousarray(frame).data))
        if self._raw is not None:
            self._raw[self.count % len(self._raw)] = frame
        self.count += 1
        if len(self._open) == self.chunk_slots:
            self._seal()

    def read(self, starts: NDArray[np.int64], length: int, out: NDArray[np.uint8]) -> None:
        """Write the `length` consecutive frames from each start into `out`, [starts, length, height, width]."""
        if self._raw is None:
            self._decompress(starts, length, out)
        else:
            numbers = starts[:, None] + np.arange(length)
            frames = out.reshape(len(starts), length, *self._shape)
            np.take(self._raw, numbers, axis=0, out=frames, mode="wrap")

    def _decompress(self, starts: NDArray[np.int64], length: int, out: NDArray[np.uint8]) -> None:
        """Read as `read` does, from the compressed frames."""
        flat = out.reshape(len(starts) * length, self._frame_bytes)
        pieces: dict[int, list[_Piece]] = {}
        for row, start in enumerate(starts.tolist()):
            done = 0
            while done < length:
                dictionary, piece = self._piece(start + done, length - done, row * length + done)
                pieces.setdefault(dictionary, []).append(piece)
                done += len(piece.sizes)
        for dictionary, found in pieces.items():
            sizes = np.concatenate([piece.sizes for piece in found]).astype(np.uint64)
            positions = np.concatenate([piece.positions for piece in found]).tolist()
            segments = np.stack([np.cumsum(sizes) - sizes, sizes], axis=1)  # offset and size of each frame
            compressed = zstandard.BufferWithSegments(b"".join([piece.data for piece in found]), segments.tobytes())
            decompressed_sizes = np.full(len(positions), self._frame_bytes, np.uint64).tobytes()
            # One call per dictionary, which releases the GIL.
            decompressed = self._decompressors[dictionary].multi_decompress_to_buffer(compressed, decompressed_sizes)
            for index, position in enumerate(positions):
                flat[position] = np.frombuffer(decompressed[index], np.uint8)  # type: ignore[call-overload]

    def _piece(self, number: int, max_frames: int, position: int) -> tuple[int, "_Piece"]:
        """Return the dictionary and the bytes of up to `max_frames` adjacent frames from this number on."""
        sealed = self.count - len(self._open)
        if number >= sealed:
            compressed = self._open[number - sealed : number - sealed + max_frames]
            sizes = np.array([len(one) for one in compressed])
            return self._open_dictionary, _Piece(
                b"".join(compressed), sizes, np.arange(position, position + len(compressed))
            )
        chunk = self.chunks[number // self.chunk_slots]
        slot = number % self.chunk_slots
        bounds = chunk.bounds[slot : slot + max_frames + 1]
        count = len(bounds) - 1
        return chunk.dictionary, _Piece(
            chunk.data[bounds[0] : bounds[-1]], np.diff(bounds), np.arange(position, position + count)
        )

    def state(self) -> dict[str, Any]:
        """Return the frames that are not in a full chunk yet."""
        bounds = np.cumsum([0, *map(len, self._open)], dtype=np.uint32)
        data = np.frombuffer(b"".join(self._open), np.uint8)
        return {"count": self.count, "dictionary": self._open_dictionary, "data": data, "bounds": bounds}

    def load_state(self, state: dict[str, Any], chunks: Mapping[int, Chunk], dictionaries: Mapping[int, bytes]) -> None:
        """Restore from `state()`, `chunks` and `dictionaries`."""
        self.count = state["count"]
        self.chunks = dict(chunks)
        self.dictionaries = dict(dictionaries)
        chunk = Chunk(state["dictionary"], state["data"].tobytes(), state["bounds"])
        self._open = [chunk.compressed(slot) for slot in range(chunk.bounds.size - 1)]
        self._open_dictionary = chunk.dictionary
        self._compressor = _compressor(self.dictionaries.get(chunk.dictionary))
        self._decompressors = {0: zstandard.ZstdDecompressor()}
        for number, dictionary in self.dictionaries.items():
            self._add_decompressor(number, dictionary)
        if self._raw is not None:
            sealed = self.count - len(self._open)
            for start in [*(number * self.chunk_slots for number in chunks), sealed]:
                numbers = np.arange(start, min(start + self.chunk_slots, self.count))
                frames = np.empty((1, len(numbers), *self._shape), np.uint8)
                self._decompress(numbers[:1], len(numbers), frames)
                self._raw[numbers % len(self._raw)] = frames[0]

    def _seal(self) -> None:
        number = self.count // self.chunk_slots - 1
        bounds = np.cumsum([0, *map(len, self._open)], dtype=np.uint32)
        self.chunks[number] = Chunk(self._open_dictionary, b"".join(self._open), bounds)
        if number % DICTIONARY_CHUNKS == 0:
            self._train_dictionary(number)
        self._open = []
        oldest = max(0, self.count - self._window) // self.chunk_slots
        for old in [number for number in self.chunks if number < oldest]:
            del self.chunks[old]
        used = {chunk.dictionary for chunk in self.chunks.values()} | {0, self._open_dictionary}
        for unused in self._decompressors.keys() - used:
            del self._decompressors[unused], self.dictionaries[unused]

    def _train_dictionary(self, number: int) -> None:
        frames = np.empty((1, self.chunk_slots, *self._shape), np.uint8)
        self.read(np.array([number * self.chunk_slots]), self.chunk_slots, frames)
        try:
            trained = zstandard.train_dictionary(DICTIONARY_BYTES, [frame.tobytes() for frame in frames[0, ::2]])
        except zstandard.ZstdError:  # too few samples, as in a tiny replay: keep the dictionary in use
            return
        self._open_dictionary = number + 1
        self.dictionaries[self._open_dictionary] = trained.as_bytes()
        self._compressor = _compressor(trained.as_bytes())
        self._add_decompressor(self._open_dictionary, trained.as_bytes())

    def _add_decompressor(self, number: int, dictionary: bytes) -> None:
        self._decompressors[number] = zstandard.ZstdDecompressor(zstandard.ZstdCompressionDict(dictionary))


def _compressor(dictionary: bytes | None) -> zstandard.ZstdCompressor:
    data = zstandard.ZstdCompressionDict(dictionary) if dictionary else None
    # Size, checksum and dictionary of a frame are stored elsewhere; leaving them out of its header saves bytes.
    return zstandard.ZstdCompressor(
        LEVEL, dict_data=data, write_content_size=False, write_checksum=False, write_dict_id=False
    )

"""Pictures kept compressed, once each, in the bytes that a checkpoint writes.

Pictures are numbered from 0 in the order they come and kept in chunks of a fixed number of slots. A full chunk never
changes again. The first chunk is packed by zstd alone (about 10 times smaller); its pictures train a dictionary, and
every later chunk names the dictionary it was packed with (18 to 37 times smaller). A new dictionary is trained on the
latest chunk from time to time, so that scenes found later in a run pack as well as its first ones. Small pictures are
kept as they are beside that, for unpacking them would take a quarter of an agent's time.
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
PLAIN_BYTES = 64 * 2**20
"""Pictures that all fit in here are read without unpacking."""


@dataclass
class Chunk:
    """Packed pictures one after the other; picture k lies between bounds k and k + 1."""

    dictionary: int
    data: bytes | memoryview
    bounds: NDArray[np.uint32]

    def packed(self, slot: int) -> bytes:
        """Return the packed bytes of one picture."""
        return bytes(self.data[self.bounds[slot] : self.bounds[slot + 1]])


class _Piece(NamedTuple):
    """Packed pictures that lie together, and where they go when unpacked."""

    data: bytes | memoryview
    sizes: NDArray[np.int64]
    places: NDArray[np.int64]


class FrameLog:
    """The latest pictures of a run; older ones are let go a chunk at a time."""

    def __init__(self, window: int, shape: tuple[int, int], chunk_slots: int) -> None:
        """Keep at least the latest `window` pictures."""
        self.count = 0
        self.chunk_slots = chunk_slots
        self.chunks: dict[int, Chunk] = {}
        self.dictionaries: dict[int, bytes] = {}
        self._window = window
        self._shape = shape
        self._frame_bytes = shape[0] * shape[1]
        self._open: list[bytes] = []
        self._open_dictionary = 0
        self._packer = _packer(None)
        self._unpackers = {0: zstandard.ZstdDecompressor()}
        plain_slots = window + chunk_slots  # as many as there may be in chunks
        fits = plain_slots * self._frame_bytes <= PLAIN_BYTES
        self._plain = np.zeros((plain_slots, *shape), np.uint8) if fits else None

    def append(self, frame: NDArray[np.uint8]) -> None:
        """Pack one picture and keep it."""
        self._open.append(self._packer.compress(np.ascontiguousarray(frame).data))
        if self._plain is not None:
            self._plain[self.count % len(self._plain)] = frame
        self.count += 1
        if len(self._open) == self.chunk_slots:
            self._seal()

    def read(self, starts: NDArray[np.int64], length: int, out: NDArray[np.uint8]) -> None:
        """Write, for each start, the `length` pictures from that number on into `out`, [starts, length, ...]."""
        if self._plain is None:
            self._unpack(starts, length, out)
        else:
            numbers = starts[:, None] + np.arange(length)
            pictures = out.reshape(len(starts), length, *self._shape)
            np.take(self._plain, numbers, axis=0, out=pictures, mode="wrap")

    def _unpack(self, starts: NDArray[np.int64], length: int, out: NDArray[np.uint8]) -> None:
        """Do what `read` does, from the packed pictures."""
        flat = out.reshape(len(starts) * length, self._frame_bytes)
        pieces: dict[int, list[_Piece]] = {}
        for place, start in enumerate(starts.tolist()):
            done = 0
            while done < length:
                dictionary, piece = self._piece(start + done, length - done, place * length + done)
                pieces.setdefault(dictionary, []).append(piece)
                done += len(piece.sizes)
        for dictionary, found in pieces.items():
            sizes = np.concatenate([piece.sizes for piece in found]).astype(np.uint64)
            places = np.concatenate([piece.places for piece in found]).tolist()
            segments = np.stack([np.cumsum(sizes) - sizes, sizes], axis=1)  # where each picture begins, and its bytes
            packed = zstandard.BufferWithSegments(b"".join([piece.data for piece in found]), segments.tobytes())
            unpacked_sizes = np.full(len(places), self._frame_bytes, np.uint64).tobytes()
            # One call for all pictures of a dictionary, during which other threads run.
            unpacked = self._unpackers[dictionary].multi_decompress_to_buffer(packed, unpacked_sizes)
            for position, place in enumerate(places):
                flat[place] = np.frombuffer(unpacked[position], np.uint8)  # type: ignore[call-overload]

    def _piece(self, number: int, most: int, place: int) -> tuple[int, "_Piece"]:
        """Return the dictionary and the bytes of up to `most` pictures that lie together from this number on."""
        sealed = self.count - len(self._open)
        if number >= sealed:
            packed = self._open[number - sealed : number - sealed + most]
            sizes = np.array([len(one) for one in packed])
            return self._open_dictionary, _Piece(b"".join(packed), sizes, np.arange(place, place + len(packed)))
        chunk = self.chunks[number // self.chunk_slots]
        slot = number % self.chunk_slots
        bounds = chunk.bounds[slot : slot + most + 1]
        count = len(bounds) - 1
        return chunk.dictionary, _Piece(
            chunk.data[bounds[0] : bounds[-1]], np.diff(bounds), np.arange(place, place + count)
        )

    def state(self) -> dict[str, Any]:
        """Return what is not in full chunks or dictionaries."""
        bounds = np.cumsum([0, *map(len, self._open)], dtype=np.uint32)
        data = np.frombuffer(b"".join(self._open), np.uint8)
        return {"count": self.count, "dictionary": self._open_dictionary, "data": data, "bounds": bounds}

    def load_state(self, state: dict[str, Any], chunks: Mapping[int, Chunk], dictionaries: Mapping[int, bytes]) -> None:
        """Take up where `state` was asked for."""
        self.count = state["count"]
        self.chunks = dict(chunks)
        self.dictionaries = dict(dictionaries)
        chunk = Chunk(state["dictionary"], state["data"].tobytes(), state["bounds"])
        self._open = [chunk.packed(slot) for slot in range(chunk.bounds.size - 1)]
        self._open_dictionary = chunk.dictionary
        self._packer = _packer(self.dictionaries.get(chunk.dictionary))
        self._unpackers = {0: zstandard.ZstdDecompressor()}
        for number, dictionary in self.dictionaries.items():
            self._add_unpacker(number, dictionary)
        if self._plain is not None:
            sealed = self.count - len(self._open)
            for start in [*(number * self.chunk_slots for number in chunks), sealed]:
                numbers = np.arange(start, min(start + self.chunk_slots, self.count))
                pictures = np.empty((1, len(numbers), *self._shape), np.uint8)
                self._unpack(numbers[:1], len(numbers), pictures)
                self._plain[numbers % len(self._plain)] = pictures[0]

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
        for unused in self._unpackers.keys() - used:
            del self._unpackers[unused], self.dictionaries[unused]

    def _train_dictionary(self, number: int) -> None:
        frames = np.empty((1, self.chunk_slots, *self._shape), np.uint8)
        self.read(np.array([number * self.chunk_slots]), self.chunk_slots, frames)
        try:
            trained = zstandard.train_dictionary(DICTIONARY_BYTES, [frame.tobytes() for frame in frames[0, ::2]])
        except zstandard.ZstdError:  # too few samples, as in a tiny replay: go on as before
            return
        self._open_dictionary = number + 1
        self.dictionaries[self._open_dictionary] = trained.as_bytes()
        self._packer = _packer(trained.as_bytes())
        self._add_unpacker(self._open_dictionary, trained.as_bytes())

    def _add_unpacker(self, number: int, dictionary: bytes) -> None:
        self._unpackers[number] = zstandard.ZstdDecompressor(zstandard.ZstdCompressionDict(dictionary))


def _packer(dictionary: bytes | None) -> zstandard.ZstdCompressor:
    data = zstandard.ZstdCompressionDict(dictionary) if dictionary else None
    # The size, checksum and dictionary of a picture are known from elsewhere; leaving them out saves bytes.
    return zstandard.ZstdCompressor(
        LEVEL, dict_data=data, write_content_size=False, write_checksum=False, write_dict_id=False
    )

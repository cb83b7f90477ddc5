import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from offpiste.arrays import pack, unpack
from offpiste.seeding import generator_state, stream

KINDS = ["bool", "uint8", "int8", "uint16", "int32", "int64", "uint64", "float16", "float32", "float64"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
ARRAYS = st.sampled_from(KINDS).flatmap(
    lambda kind: arrays_of.arrays(kind, arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)


def test_arrays_and_json_values_are_restored_under_their_names() -> None:
    back = unpack(pack({"weights": np.array([[1.5, 2.5]], np.float32), "step": 7, "names": ["a", "b"]}))
    assert set(back) == {"weights", "step", "names"}
    assert back["weights"].tolist() == [[1.5, 2.5]]
    assert back["weights"].dtype == np.float32
    assert back["step"] == 7
    assert back["names"] == ["a", "b"]


def test_the_bytes_are_a_safetensors_file() -> None:
    data = pack({"a": np.array([1, 2], np.uint8), "b": True})
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    assert header["a"] == {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}
    assert json.loads(header["__metadata__"]["offpiste"]) == {"b": True}
    assert data[8 + length :] == b"\x01\x02"


@given(array=ARRAYS, value=JSON)
def test_any_array_and_any_json_value_survive_to_the_bit(array: np.ndarray[Any, Any], value: Any) -> None:
    back = unpack(pack({"array": array, "value": value}))
    assert back["array"].dtype == array.dtype
    assert back["array"].shape == array.shape
    assert back["array"].tobytes() == array.tobytes()
    assert json.dumps(back["value"]) == json.dumps(value)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6).reshape(2, 3).T,
        np.arange(10)[::3],
        np.arange(4, dtype=">i4"),
        np.asfortranarray(np.eye(3)),
    ],
    ids=["transposed", "strided", "big-endian", "column-major"],
)
def test_an_array_keeps_its_values_whatever_its_memory_layout(array: np.ndarray[Any, Any]) -> None:
    np.testing.assert_array_equal(unpack(pack({"array": array}))["array"], array)


def test_a_restored_array_is_writable_and_does_not_share_the_bytes() -> None:
    data = pack({"array": np.zeros(3)})
    unpack(data)["array"][:] = 1.0
    assert unpack(data)["array"].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("value", [np.int64(3), np.float32(1.5), np.bool_(True), {"deep": [np.uint8(4)]}])
def test_numpy_scalars_are_restored_as_python_numbers(value: Any) -> None:
    back = unpack(pack({"value": value}))["value"]
    assert back == value
    assert not isinstance(back, np.generic)


def test_the_state_of_a_random_generator_survives() -> None:
    state = generator_state(stream(0, "x"))
    assert unpack(pack({"state": state}))["state"] == state


def test_an_empty_dictionary_survives() -> None:
    assert unpack(pack({})) == {}


def test_the_same_values_give_the_same_bytes() -> None:
    values = {"b": np.arange(3), "a": np.ones(2, np.float32), "c": {"x": 1}}
    assert pack(values) == pack(dict(values))


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes"])
def test_a_value_that_is_neither_an_array_nor_json_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match=f"must be an array or JSON, got {type(value).__name__}"):
        pack({"value": value})


def test_an_array_of_objects_is_refused_rather_than_pickled() -> None:
    with pytest.raises(Exception, match="dtype"):
        pack({"array": np.array([object()])})

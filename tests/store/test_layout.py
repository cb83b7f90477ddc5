"""The names in a run's folder."""

from offpiste.store import layout


def test_the_kind_of_an_object_is_its_key_up_to_the_first_slash() -> None:
    objects = {"chunk/1": b"a", "chunks": b"b", "part/episodes/1": b"c", "loop": b"d", "chunk": b"e"}
    assert layout.of_kinds(objects, "chunk") == {"chunk/1": b"a", "chunk": b"e"}
    assert layout.of_kinds(objects, "part", "chunk") == {"chunk/1": b"a", "chunk": b"e", "part/episodes/1": b"c"}

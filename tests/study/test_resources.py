"""How many runs fit on a machine, and which GPUs each of them gets."""

import os
import sys
from typing import Any

import pytest

from offpiste.study.child import end_with
from offpiste.study.resources import gpus_of_slot, slots_on, this_machine, visible_gpus


@pytest.mark.parametrize(
    ("node", "needs", "count"),
    [
        ({"CPU": 8.0, "memory": 16e9}, {"CPU": 1.0, "GPU": 0.0, "memory": 2e9}, 8),
        ({"CPU": 8.0, "memory": 9e9}, {"CPU": 1.0, "GPU": 0.0, "memory": 2e9}, 4),
        ({"CPU": 8.0, "memory": 99e9}, {"CPU": 1.0, "GPU": 0.25, "memory": 2e9}, 0),
        ({"CPU": 8.0, "GPU": 1.0, "memory": 99e9}, {"CPU": 1.0, "GPU": 0.1, "memory": 2e9}, 8),
        ({"CPU": 99.0, "GPU": 2.0, "memory": 99e9}, {"CPU": 0.5, "GPU": 0.1, "memory": 1e9}, 20),
        ({"memory": 99e9}, {"CPU": 1.0, "GPU": 0.0, "memory": 1e9}, 0),
    ],
)
def test_the_scarcest_resource_decides_how_many_runs_fit(node: Any, needs: Any, count: int) -> None:
    assert slots_on(node, needs) == count


def test_this_machine_has_processors_and_memory() -> None:
    found = this_machine()
    assert found["CPU"] >= 1
    assert found["memory"] > 1e8


def test_without_the_calls_of_linux_a_machine_has_processors_and_a_process_its_parent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    assert this_machine()["CPU"] == os.cpu_count()
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr("offpiste.study.child.ctypes", None)  # macOS has no prctl
    end_with(os.getppid())
    with pytest.raises(SystemExit):
        end_with(1 + os.getppid())


def test_the_gpus_of_a_slot_are_among_those_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5,GPU-x,7")
    gpus = visible_gpus()
    assert gpus == ["2", "5", "GPU-x", "7"]
    assert [gpus_of_slot(slot, 1.0, gpus) for slot in range(4)] == gpus
    assert [gpus_of_slot(slot, 0.25, gpus) for slot in (0, 3, 4, 15)] == ["2", "2", "5", "7"]
    assert [gpus_of_slot(slot, 2.0, gpus) for slot in range(2)] == ["2,5", "GPU-x,7"]
    assert gpus_of_slot(0, 0.0, gpus) is None
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert visible_gpus() == []

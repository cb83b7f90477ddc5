"""What a process is set up with before it trains."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from offpiste.config import MachineConfig
from offpiste.run.process import prepare, slurm_job


def test_numbers_too_small_for_a_full_mantissa_count_as_nothing_on_every_thread() -> None:
    small, factor = torch.full((4_000_000,), 2.0**-100), 2.0**-40
    try:
        prepare(MachineConfig(threads=2))
        assert not (small * factor).any()
    finally:
        prepare(MachineConfig())


BACKENDS: Any = torch.backends
CUDA_PARTS = (BACKENDS.cudnn, BACKENDS.cudnn.conv, BACKENDS.cudnn.rnn, BACKENDS.cuda.matmul)
PARTS = (*CUDA_PARTS, BACKENDS.mkldnn, BACKENDS.mkldnn.conv, BACKENDS.mkldnn.rnn, BACKENDS.mkldnn.matmul)


def lower_by_parts(precision: str) -> None:
    for part in (BACKENDS, *PARTS):
        if not (precision == "bf16" and part in CUDA_PARTS):  # which torch refuses there
            part.fp32_precision = precision


def lower_by_switches() -> None:
    BACKENDS.cudnn.allow_tf32 = BACKENDS.cuda.matmul.allow_tf32 = True


@pytest.mark.parametrize(
    "before",
    [
        lambda: None,
        lower_by_switches,
        lambda: torch.set_float32_matmul_precision("high"),
        lambda: torch.set_float32_matmul_precision("medium"),
        lambda: lower_by_parts("tf32"),
        lambda: lower_by_parts("bf16"),
        lambda: lower_by_parts("none"),
    ],
    ids=["untouched", "switches", "high", "medium", "tf32", "bf16", "none"],
)
def test_single_precision_is_not_lowered_by_any_part_of_torch_whatever_was_set_before(
    before: Callable[[], None],
) -> None:
    before()
    prepare(MachineConfig())
    assert {part.fp32_precision for part in (BACKENDS, *PARTS)} == {"ieee"}
    assert torch.get_float32_matmul_precision() == "highest"
    # These older switches are read by parts of torch that do not know the newer ones; a contradiction is an error.
    assert BACKENDS.cudnn.allow_tf32 is False
    assert BACKENDS.cuda.matmul.allow_tf32 is False


def test_the_slurm_job_of_a_process_is_named_as_scancel_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"):
        monkeypatch.delenv(name, raising=False)
    assert slurm_job() == ""
    monkeypatch.setenv("SLURM_JOB_ID", "9")
    assert slurm_job() == "9"
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "7")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    assert slurm_job() == "7_3"

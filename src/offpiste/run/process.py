"""The process that trains a run: torch's device, threads and determinism, and the attempt's record."""

import os
import platform
import socket
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from offpiste.config import RESULTS_VERSION, MachineConfig
from offpiste.errors import MachineError
from offpiste.neural import accept_read_only_arrays
from offpiste.rows import AttemptRow, utc_now

_LIBRARIES = ("torch", "numpy", "ale-py", "opencv-python-headless", "zstandard")


def prepare(machine: MachineConfig) -> None:
    """Make torch deterministic, and refuse a device that is not there.

    Denormals are flushed to 0: Adam's means of vanished gradients decay into them, a quarter of all after a thousand
    updates, and an update then takes a third longer.
    """
    accept_read_only_arrays()
    torch.set_num_threads(machine.threads)
    torch.set_flush_denormal(True)  # before torch starts threads, which inherit it
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    _keep_single_precision()
    device = torch.device(machine.device)
    if device.type == "cuda" and not (device.index or 0) < torch.cuda.device_count():
        found = torch.cuda.device_count()
        raise MachineError(
            f"machine.device must be cpu or one of {found} GPUs, got {machine.device!r}; set machine.device to cpu"
        )


def _keep_single_precision() -> None:
    """Let fp32 mean fp32: GPUs from Ampere on otherwise convolve in TF32, with a mantissa of 10 bits for 23."""
    backends: Any = torch.backends
    if hasattr(backends, "fp32_precision"):  # since torch 2.9
        cudnn, mkldnn = backends.cudnn, backends.mkldnn
        for part in (backends, cudnn, cudnn.conv, cudnn.rnn, backends.cuda.matmul):
            part.fp32_precision = "ieee"
        for part in (mkldnn, mkldnn.conv, mkldnn.rnn, mkldnn.matmul):
            part.fp32_precision = "ieee"
    with warnings.catch_warnings():
        # Some versions deprecate the older switches, yet fail if they contradict the newer ones.
        warnings.simplefilter("ignore")
        torch.set_float32_matmul_precision("highest")
        backends.cuda.matmul.allow_tf32 = backends.cudnn.allow_tf32 = False


def about_this_process(machine: MachineConfig) -> AttemptRow:
    """Return the attempt's row for this process, before it has restored a run."""
    versions = {"python": platform.python_version(), "offpiste": version("offpiste"), "results": str(RESULTS_VERSION)}
    versions |= {name: version(name) for name in _LIBRARIES}
    device = torch.device(machine.device)
    gpu = f", {torch.cuda.get_device_name(device)}" if device.type == "cuda" else ""
    return AttemptRow(
        attempt="",
        started_at=utc_now(),
        start_step=0,
        host=socket.gethostname(),
        hardware=f"{_processor()}{gpu}",
        threads=machine.threads,
        versions=", ".join(f"{name} {number}" for name, number in versions.items()),
        note="ended before it had taken over",  # replaced once it has
    )


def slurm_job() -> str:
    """Return the Slurm job to which this process belongs, as `scancel` takes it, or ""."""
    job, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{job}_{task}" if job and task else os.environ.get("SLURM_JOB_ID", "")


def _processor() -> str:
    about = Path("/proc/cpuinfo")
    for line in about.read_text().splitlines() if about.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()

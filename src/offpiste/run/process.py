"""The process that a run lives in: its device and threads, and who it is."""

import platform
import socket
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import offpiste
from offpiste.config import RESULTS_VERSION, MachineConfig
from offpiste.errors import ConfigError
from offpiste.store.records import AttemptRow, utc_now

_LIBRARIES = ("torch", "numpy", "ale-py", "opencv-python-headless", "zstandard")


def prepare(machine: MachineConfig) -> None:
    """Set torch up for exact repetition, and say at once if the device cannot be used.

    Numbers too small for a full mantissa count as 0: the means of gradients that have stopped fade into them, a quarter
    of all after a thousand updates, and a processor that computes with them takes a third longer for an update.
    """
    torch.set_num_threads(machine.threads)
    torch.set_flush_denormal(True)  # before any thread of torch's own is started, which takes it over
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    _keep_single_precision()
    device = torch.device(machine.device)
    if device.type == "cuda" and not (device.index or 0) < torch.cuda.device_count():
        found = torch.cuda.device_count()
        raise ConfigError(f"machine.device is {machine.device!r}, but torch finds {found} GPUs here; cpu always works")


def _keep_single_precision() -> None:
    """Let fp32 mean fp32: on GPUs from Ampere on, convolutions otherwise compute in TF32, which has 10 bits for 23."""
    backends: Any = torch.backends
    if hasattr(backends, "fp32_precision"):  # since torch 2.9
        cudnn, mkldnn = backends.cudnn, backends.mkldnn
        for part in (backends, cudnn, cudnn.conv, cudnn.rnn, backends.cuda.matmul):
            part.fp32_precision = "ieee"
        for part in (mkldnn, mkldnn.conv, mkldnn.rnn, mkldnn.matmul):
            part.fp32_precision = "ieee"
    with warnings.catch_warnings():
        # Some versions warn of the older switches, but one that contradicts the newer ones would be an error.
        warnings.simplefilter("ignore")
        torch.set_float32_matmul_precision("highest")
        backends.cuda.matmul.allow_tf32 = backends.cudnn.allow_tf32 = False


def about_this_process(machine: MachineConfig) -> AttemptRow:
    """Return what the records say of this process, before it has taken over a run."""
    versions = {"python": platform.python_version(), "offpiste": offpiste.__version__, "results": str(RESULTS_VERSION)}
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


def _processor() -> str:
    about = Path("/proc/cpuinfo")
    for line in about.read_text().splitlines() if about.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()

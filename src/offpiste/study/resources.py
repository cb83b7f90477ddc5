"""What a run of a study needs, how many fit on a machine, and which GPUs each gets."""

import os
from collections.abc import Mapping
from pathlib import Path

from offpiste.config import RunConfig
from offpiste.store.checkpoints import memory_bytes
from offpiste.study.cost import cost
from offpiste.study.plan import Study

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_USABLE_MEMORY = 0.9
"""Share of a machine's memory that runs may occupy."""


def needs_of(study: Study, run: RunConfig) -> dict[str, float]:
    """Return the processors, GPUs and bytes of memory that a run occupies."""
    resources = study.resources
    memory = resources.memory_gb or cost(run, study.keep).memory_gb
    return {"CPU": resources.cpus, "GPU": resources.gpus, "memory": 1e9 * memory}


def max_needs_of(study: Study) -> dict[str, float]:
    """Return the needs of the run that needs the most memory."""
    return max((needs_of(study, run) for run in study.runs), key=lambda needs: needs["memory"])


def slots_on(node: Mapping[str, float], needs: Mapping[str, float]) -> int:
    """Return how many runs fit on a machine at once."""
    return min(int(node.get(kind, 0.0) / amount + 1e-9) for kind, amount in needs.items() if amount > 0)


def this_machine() -> dict[str, float]:
    """Return what this process may use of this machine."""
    limits = (Path(path).read_text().strip() for path in _CGROUP_LIMITS if Path(path).exists())
    total = memory_bytes()
    memory = _USABLE_MEMORY * min(total, *(int(limit) for limit in limits if limit.isdecimal()), total)
    return {"CPU": float(_processors()), "GPU": float(len(visible_gpus())), "memory": memory}


def _processors() -> int:
    """Return the processors that this process may use; all of them where the system does not say which."""
    affinity = getattr(os, "sched_getaffinity", None)  # which macOS does not have
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def visible_gpus() -> list[str]:
    """Return the GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name for name in named.split(",") if name.strip()]
    cards = Path("/proc/driver/nvidia/gpus")
    return [str(index) for index in range(len(list(cards.iterdir())))] if cards.exists() else []


def gpus_of_slot(slot: int, gpus: float, visible: list[str]) -> str | None:
    """Return the CUDA_VISIBLE_DEVICES of a slot whose run occupies so many GPUs; None for one that needs none."""
    if not gpus:
        return None
    first = int(slot * gpus + 1e-9)
    return ",".join(visible[first : first + max(1, round(gpus))])


def needs_text(needs: Mapping[str, float]) -> str:
    """Return the needs of a run for a message."""
    return f"{needs['CPU']:g} CPUs, {needs['GPU']:g} GPUs and {needs['memory'] / 1e9:.1f} GB of memory"

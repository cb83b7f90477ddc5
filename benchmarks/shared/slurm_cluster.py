"""A real Slurm on this machine, on loopback alone: munged, slurmctld and some slurmd, as processes of this one.

Needs root, since slurmd starts jobs as their users, and Debian's packages slurmctld, slurmd, slurm-client and munge.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

START_SECONDS = 60.0
_CONF = """\
ClusterName=offpiste
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,sched_min_interval=100000,bf_interval=2,batch_sched_delay=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
ReturnToService=2
SlurmdTimeout=20
SlurmctldTimeout=30
InactiveLimit=0
KillWait=10
MinJobAge=600
OverTimeLimit=0
JobRequeue=1
SlurmdParameters=config_overrides
{nodes}
PartitionName=low Nodes={names} Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=10
PartitionName=high Nodes={names} MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""
_NODE = (
    "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} Boards=1 SocketsPerBoard=1 "
    "CoresPerSocket={cpus} ThreadsPerCore=1 RealMemory=64000 State=UNKNOWN"
)


class SlurmCluster:
    """A cluster of some nodes, with partitions low and high, of which high preempts low."""

    def __init__(self, folder: Path, nodes: int = 3, cpus: int = 8, port: int = 16_917) -> None:
        for program in ("munged", "slurmctld", "slurmd", "sbatch"):
            if shutil.which(program) is None:
                raise SystemExit(
                    f"no {program}: apt-get install --no-install-recommends slurmctld slurmd slurm-client munge"
                )
        self.nodes = [f"node{number}" for number in range(1, nodes + 1)]
        self._folder, self._conf = folder, folder / "slurm.conf"
        (folder / "state").mkdir(parents=True)
        (folder / "munge").mkdir(mode=0o700)
        key = folder / "munge" / "key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
        host = socket.gethostname().partition(".")[0]
        lines = [
            _NODE.format(name=name, host=host, cpus=cpus, port=port + 1 + index)
            for index, name in enumerate(self.nodes)
        ]
        names = ",".join(self.nodes)
        self._conf.write_text(_CONF.format(host=host, port=port, folder=folder, nodes="\n".join(lines), names=names))
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which Slurm's commands find this cluster."""
        return {**os.environ, "SLURM_CONF": str(self._conf)}

    def __enter__(self) -> "SlurmCluster":
        folder = self._folder
        socket_file = folder / "munge.socket"
        munge = ["--foreground", "--force", f"--key-file={folder}/munge/key", f"--socket={socket_file}"]
        munge += [f"--pid-file={folder}/munged.pid", f"--seed-file={folder}/munge/seed"]
        folder.chmod(0o755)
        self._start("munged", "munged", *munge, f"--log-file={folder}/munged.log")
        self._wait(socket_file.exists)
        self._start("slurmctld", "slurmctld", "-D", "-f", str(self._conf))
        for name in self.nodes:
            self.start_node(name)
        self._wait(lambda: len(self.command("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split()) >= len(self.nodes))
        return self

    def __exit__(self, *_: object) -> None:
        self.command("scancel", "-u", str(os.getuid()), check=False)
        with suppress(TimeoutError):
            self._wait(lambda: not self.command("squeue", "-h", check=False).strip())
        for name in reversed(self._daemons):
            daemon = self._daemons[name]
            daemon.terminate()
            try:
                daemon.wait(timeout=15)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def start_node(self, name: str) -> None:
        """Start the slurmd of a node."""
        self._start(name, "slurmd", "-D", "-f", str(self._conf), "-N", name)

    def kill_node(self, name: str) -> None:
        """Kill the slurmd of a node, and leave its jobs to themselves."""
        self._daemons[name].send_signal(signal.SIGKILL)
        self._daemons[name].wait()

    def command(self, *argv: str, check: bool = True, cwd: Path | None = None) -> str:
        """Return what a command of Slurm prints."""
        done = subprocess.run(argv, env=self.environment, cwd=cwd, capture_output=True, text=True, check=False)
        if check and done.returncode:
            raise RuntimeError(f"{argv}: {done.stderr}")
        return done.stdout

    def jobs(self) -> list[dict[str, str]]:
        """Return the tasks that Slurm knows and that have not ended."""
        found = []
        for line in self.command("squeue", "-h", "-r", "-o", "%i %T %N %P").splitlines():
            name, state, *more = line.split()
            found.append({"job": name, "state": state, "node": more[0] if len(more) > 1 else "", "partition": more[-1]})
        return found

    def _start(self, name: str, *argv: str) -> None:
        with (self._folder / f"{name}.out").open("ab") as out:
            self._daemons[name] = subprocess.Popen(argv, env=self.environment, stdout=out, stderr=out)

    @staticmethod
    def _wait(happened: Callable[[], object]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            with suppress(RuntimeError):
                if happened():
                    return
            time.sleep(0.2)
        raise TimeoutError("Slurm does not answer")

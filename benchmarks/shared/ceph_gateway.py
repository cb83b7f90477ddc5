"""A real Ceph object gateway (S3) on loopback: a monitor, an OSD in memory and a radosgw, as processes of this one.

Debian: apt-get install --no-install-recommends radosgw ceph-mon ceph-osd ceph-common
"""

import contextlib
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from tests.s3_server import free_port

START_SECONDS = 180.0
_KEY, _SECRET = "offpiste", "offpiste-secret"
_CONF = """\
[global]
fsid = {fsid}
mon host = v2:127.0.0.1:{mon_port}
public addr = 127.0.0.1
cluster addr = 127.0.0.1
public network = 127.0.0.0/8
auth cluster required = none
auth service required = none
auth client required = none
ms mon cluster mode = crc
ms mon service mode = crc
ms mon client mode = crc
ms cluster mode = crc
ms service mode = crc
ms client mode = crc
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon max pg per osd = 1000
run dir = {folder}
log file = {folder}/$name.log
admin socket = {folder}/$name.asok
pid file = {folder}/$name.pid
[mon]
mon data = {folder}/mon
[osd]
osd data = {folder}/osd
osd objectstore = memstore
memstore device bytes = 4294967296
[client.rgw]
rgw frontends = beast endpoint=127.0.0.1:{port}
rgw data = {folder}/rgw
rgw thread pool size = 32
"""


@contextlib.contextmanager
def ceph_gateway(folder: Path) -> Iterator[str]:
    """Yield the URL of an empty folder in a bucket, with its keys in the environment and nothing else there."""
    for program in ("ceph-mon", "ceph-osd", "radosgw"):
        if shutil.which(program) is None:
            raise SystemExit(
                f"no {program}: apt-get install --no-install-recommends radosgw ceph-mon ceph-osd ceph-common"
            )
    for name in ("mon", "osd", "rgw"):
        (folder / name).mkdir(parents=True)
    port, conf = free_port(), folder / "ceph.conf"
    conf.write_text(_CONF.format(fsid=uuid.uuid4(), folder=folder, port=port, mon_port=free_port()))
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        with _keys():
            _start(conf, folder, daemons)
            _make_bucket(port)
            yield f"s3://bucket/store?region=us-east-1&scheme=http&endpoint_override=127.0.0.1:{port}"
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            try:
                daemon.wait(timeout=15)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


@contextlib.contextmanager
def _keys() -> Iterator[None]:
    with mock.patch.dict(os.environ):
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            del os.environ[name]
        os.environ.update(AWS_ACCESS_KEY_ID=_KEY, AWS_SECRET_ACCESS_KEY=_SECRET)
        yield


def _start(conf: Path, folder: Path, daemons: "list[subprocess.Popen[bytes]]") -> None:
    text = conf.read_text()
    fsid = text.split("fsid = ")[1].split()[0]
    address = text.split("mon host = ")[1].split()[0]
    log = (folder / "out").open("ab")

    def run(*argv: str) -> None:
        subprocess.run([*argv, "-c", str(conf)], check=True, stdout=log, stderr=log)

    def start(*argv: str) -> None:
        daemons.append(subprocess.Popen([*argv, "-f", "-c", str(conf)], stdout=log, stderr=log))

    with log:
        monmap = str(folder / "monmap")
        run("monmaptool", "--create", "--fsid", fsid, "--addv", "a", f"[{address}]", monmap)
        run("ceph-mon", "--mkfs", "-i", "a", "--monmap", monmap)
        start("ceph-mon", "-i", "a")
        osd = str(uuid.uuid4())
        run("ceph", "osd", "new", osd)
        run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", osd)
        start("ceph-osd", "-i", "0")
        start("radosgw", "-n", "client.rgw")
        user = ["--uid=offpiste", "--display-name=offpiste", f"--access-key={_KEY}", f"--secret-key={_SECRET}"]
        run("radosgw-admin", "user", "create", *user)


def _make_bucket(port: int) -> None:
    import boto3  # comes with moto
    from botocore.config import Config

    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
    client = boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name="us-east-1",
        config=Config(request_checksum_calculation="when_required"),
    )
    client.create_bucket(Bucket="bucket")

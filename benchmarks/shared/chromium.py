"""A real browser for benchmarks: Chromium without a window, spoken to through a pipe by its DevTools protocol."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

FLAGS = (
    "--headless",
    "--no-sandbox",  # which root may not use
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)
_PATIENCE_SECONDS = 60.0
_PIPES = 'exec "${@:3}" 3<&"$1" 4>&"$2"'
"""Chromium reads from descriptor 3 and writes to 4."""


def chromium() -> str:
    """Return the path of the browser; a program that takes long asks for it first."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        raise SystemExit("this needs Chromium: install it so that `chromium` is found on PATH")
    return program


class Chromium:
    """One tab of a new browser, with every event since the last `open`."""

    def __init__(self) -> None:
        program = chromium()
        self.events: list[dict[str, Any]] = []
        self._profile = tempfile.mkdtemp(prefix="chromium-")
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        profile = f"--user-data-dir={self._profile}"
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        self._browser = subprocess.Popen(
            ["bash", "-c", _PIPES, "bash", str(theirs_in), str(theirs_out), program, *FLAGS, profile, "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self._out)  # it ends when nobody speaks to it any more
        try:
            self._browser.wait(10)
        except subprocess.TimeoutExpired:
            self._browser.kill()
            self._browser.wait()
        os.close(self._in)
        shutil.rmtree(self._profile, ignore_errors=True)

    def open(self, page: Path, settle_seconds: float = 0.5) -> None:
        """Open a file, wait until it is loaded and for a while after; dialogs are noted and closed."""
        self.call("Page.navigate", url="about:blank")
        self.listen(0.1)
        self.events.clear()
        self.call("Page.navigate", url=page.absolute().as_uri())
        end = time.monotonic() + _PATIENCE_SECONDS
        while not self.events_of("Page.loadEventFired"):
            if time.monotonic() > end:
                raise TimeoutError(f"{page} did not load within {_PATIENCE_SECONDS:g} s")
            self.listen(0.1)
        self.listen(settle_seconds)

    def events_of(self, method: str) -> list[dict[str, Any]]:
        """Return the parameters of the events of one kind."""
        return [event["params"] for event in self.events if event["method"] == method]

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression on the page, which the policy of the page does not hold for."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"the page refuses {script!r}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def screenshot(self, file: Path, *, width: int, height: int, scheme: str) -> None:
        """Write what is seen in a window of this size, in a light or dark colour scheme, as PNG."""
        self.set_scheme(scheme)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def set_scheme(self, scheme: str) -> None:
        """Ask for pages in light or dark colours."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return the answer to a command of the protocol."""
        number = self._send(method, parameters)
        end = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < end:
            for message in self._receive(end - time.monotonic()):
                if message.get("id") == number:
                    if "error" in message:
                        raise RuntimeError(f"Chromium refuses {method}: {message['error']}")
                    return message["result"]  # type: ignore[no-any-return]
        raise TimeoutError(f"Chromium does not answer {method}")

    def listen(self, seconds: float) -> None:
        """Take note of events for a while."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._receive(left)

    def _send(self, method: str, parameters: dict[str, Any]) -> int:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        message |= {"sessionId": self._session} if self._session else {}
        os.write(self._out, json.dumps(message).encode() + b"\0")
        return self._number

    def _receive(self, seconds: float) -> list[dict[str, Any]]:
        """Return the messages that have come by then, at least one if any does; note events and close dialogs."""
        if not select.select([self._in], [], [], max(0.0, seconds))[0]:
            return []
        data = os.read(self._in, 1 << 20)
        if not data:
            raise RuntimeError("Chromium has ended")
        *whole, self._buffer = (self._buffer + data).split(b"\0")
        messages = [json.loads(message) for message in whole]
        self.events += [message for message in messages if "method" in message]
        for message in messages:
            if message.get("method") == "Page.javascriptDialogOpening":
                self._send("Page.handleJavaScriptDialog", {"accept": False})
        return messages

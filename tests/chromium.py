# SPDX-License-Identifier: MIT
"""A headless Chromium, driven over its DevTools protocol on two pipes: Debian's package, no driver and no library.

Chromium reads messages from file descriptor 3 and writes them to 4, JSON with a NUL behind each.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

TIMEOUT_S = 60.0
COMMAND = (
    *("chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
    # Whatever would be asked for is not found: a page that needs the network shows it.
    *("--host-resolver-rules=MAP * ~NOTFOUND", "--remote-debugging-pipe", "about:blank"),
)

#: Puts the pipes where Chromium looks for them, by way of numbers that are neither, and becomes Chromium.
LAUNCH = """\
import fcntl, os, sys
pipes = [fcntl.fcntl(int(word), fcntl.F_DUPFD, 10) for word in sys.argv[1:3]]
for place, pipe in enumerate(pipes, 3):
    os.dup2(pipe, place)
    os.close(pipe)
os.execvp(sys.argv[3], sys.argv[3:])
"""


class Chromium:
    """One browser with one page. Collects what the page says and asks for while it lives."""

    def __init__(self) -> None:
        if shutil.which(COMMAND[0]) is None:
            raise RuntimeError("there is no chromium: apt-get install -y --no-install-recommends chromium")
        self.requests: list[str] = []
        self.problems: list[str] = []
        self._events: list[dict[str, Any]] = []
        self._buffer = b""
        self._count = 0
        self._profile = tempfile.mkdtemp(prefix="krepro-chromium-")
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        self._process = self._start(theirs_in, theirs_out)
        os.close(theirs_in)
        os.close(theirs_out)
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def _start(self, theirs_in: int, theirs_out: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", LAUNCH, str(theirs_in), str(theirs_out), *COMMAND]
        return subprocess.Popen(
            [*command[:-1], f"--user-data-dir={self._profile}", command[-1]],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
        shutil.rmtree(self._profile, ignore_errors=True)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of the protocol and its result."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._hear(answer)

    def open(self, path: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Show a file and wait until it is loaded."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self._events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        self._loaded()

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression on the page; of a promise, what it comes to."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def click(self, selector: str) -> None:
        """A real click into the middle of what the selector finds first."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{found}.scrollIntoView({{block: 'center', inline: 'center'}})")
        # Until the page is drawn as it was scrolled, a busy host's click falls on what was there before.
        self.run("new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(() => drawn(true))))")
        box = self.run(f"{found}.getBoundingClientRect().toJSON()")
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def follow(self, selector: str) -> None:
        """A click on a link, until its page is loaded."""
        self._events.clear()
        self.click(selector)
        self._loaded()

    def type(self, text: str) -> None:
        """Text into what has the focus."""
        self.call("Input.insertText", text=text)

    def picture(self, path: Path) -> None:
        """The whole page as a PNG."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def _loaded(self) -> None:
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._hear(self._next())

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + TIMEOUT_S
        while b"\0" not in self._buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._in], [], [], left)[0]:
                raise RuntimeError(f"chromium was silent for {TIMEOUT_S:.0f} s")
            data = os.read(self._in, 1 << 20)
            if not data:
                raise RuntimeError(f"chromium ended with status {self._process.wait()}")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def _hear(self, event: dict[str, Any]) -> None:
        self._events.append(event)
        params = event.get("params", {})
        match event["method"]:
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Log.entryAdded":
                self.problems.append(params["entry"]["text"])
            case "Runtime.exceptionThrown":
                self.problems.append(params["exceptionDetails"]["text"])
            case "Runtime.consoleAPICalled":
                self.problems.append(str(params["args"]))

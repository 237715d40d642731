"""Chromium without a window, driven through the DevTools protocol: real keys, real clicks, screenshots and traces.

The protocol is JSON over one WebSocket, for which aiohttp suffices; no driver stands between a test and the browser.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp

from sampan.testing.loop_thread import LoopThread
from tests.eventually import eventually, wait_until

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
TIMEOUT_S = 60.0
_INTERRUPTED = "net::ERR_NETWORK_CHANGED"
"""The error of requests while another test adds or removes interfaces of the machine."""
_KEYS = {
    "Enter": ("Enter", 13, "\r"),
    "Escape": ("Escape", 27, ""),
    "Tab": ("Tab", 9, ""),
    "ArrowDown": ("ArrowDown", 40, ""),
    "ArrowUp": ("ArrowUp", 38, ""),
    "Space": ("Space", 32, " "),
    "End": ("End", 35, ""),
}
"""Code, number and text of keys that are not letters."""
_NAMED_KEYS = {"\n": "Enter", " ": "Space", "\t": "Tab"}


def _character_key(character: str) -> tuple[str, int, str]:
    """Return code, number and text of the key of a character; a number for punctuation would name another key."""
    upper = character.upper()
    return (f"Key{upper}", ord(upper[0]), character) if upper.isalnum() else ("", 0, character)


def find_chromium() -> str | None:
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


class BrowserError(Exception):
    """A command of the protocol failed, or a script in the page threw."""


_NO_CONTEXT = (BrowserError,)
"""The error of a script in a page that is being loaded, which has no context yet."""


class Browser:
    """A running Chromium with a profile of its own. Pages share cookies unless they are opened in a new context."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._thread = LoopThread("browser")
        self._replies: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._events: dict[str, list[dict[str, Any]]] = {}
        self._number = 0
        self._socket: aiohttp.ClientWebSocketResponse | None = None

    def __enter__(self) -> Browser:
        self._profile = tempfile.mkdtemp(prefix="sampan-chromium-")
        self._process = subprocess.Popen(
            [
                self._program,
                "--headless=new",
                "--remote-debugging-port=0",
                f"--user-data-dir={self._profile}",
                "--no-sandbox",
                "--no-first-run",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--ignore-certificate-errors",
                "--hide-scrollbars",
                "--lang=en-US",
                "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._thread.start(self._serve())
        return self

    def __exit__(self, *exc: object) -> None:
        self._thread.stop()
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._profile, ignore_errors=True)

    @contextlib.asynccontextmanager
    async def _serve(self) -> AsyncIterator[None]:
        address = await self._address()
        async with aiohttp.ClientSession() as session, session.ws_connect(address, max_msg_size=0) as socket:
            self._socket = socket
            reader = asyncio.create_task(self._read(socket))
            try:
                yield
            finally:
                reader.cancel()
                await asyncio.gather(reader, return_exceptions=True)

    async def _address(self) -> str:
        def is_ready() -> bool:
            if self._process.poll() is not None:
                raise BrowserError(f"{self._program} ended with code {self._process.returncode}")
            return len(self._port_file()) >= 2

        await eventually(is_ready, timeout_s=TIMEOUT_S)
        lines = self._port_file()
        return f"ws://127.0.0.1:{lines[0]}{lines[1]}"

    def _port_file(self) -> list[str]:
        """Return the port and the path of the protocol, which the browser writes when it is ready."""
        path = Path(self._profile, "DevToolsActivePort")
        return path.read_text().split("\n") if path.exists() else []

    async def _read(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        async for message in socket:
            value = json.loads(message.data)
            if "id" in value:
                future = self._replies.pop(value["id"], None)
                if future is not None and not future.done():
                    future.set_result(value)
            else:
                self._events.setdefault(value.get("sessionId", ""), []).append(value)

    async def _send(self, method: str, params: dict[str, Any], session: str) -> dict[str, Any]:
        assert self._socket is not None
        self._number += 1
        future = self._replies[self._number] = asyncio.get_running_loop().create_future()
        message = {"id": self._number, "method": method, "params": params}
        await self._socket.send_json(message | ({"sessionId": session} if session else {}))
        reply = await asyncio.wait_for(future, TIMEOUT_S)
        if "error" in reply:
            raise BrowserError(f"{method}: {reply['error'].get('message')}")
        result: dict[str, Any] = reply["result"]
        return result

    def send(self, method: str, *, session: str = "", **params: Any) -> dict[str, Any]:
        return self._thread.run(self._send(method, params, session), TIMEOUT_S + 5)

    def events(self, session: str, method: str) -> list[dict[str, Any]]:
        """Return the parameters of all events of this name since the page was opened."""
        return [event["params"] for event in list(self._events.get(session, [])) if event["method"] == method]

    def page(self) -> Page:
        """Open a page in a context of its own, without cookies."""
        context = self.send("Target.createBrowserContext")["browserContextId"]
        target = self.send("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Page(self, session, target, context)


class Page:
    """A tab of the browser."""

    def __init__(self, browser: Browser, session: str, target: str, context: str) -> None:
        self._browser, self.session, self._target, self._context = browser, session, target, context
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.set_size(1280, 800)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        return self._browser.send(method, session=self.session, **params)

    def events(self, method: str) -> list[dict[str, Any]]:
        return self._browser.events(self.session, method)

    def close(self) -> None:
        self._browser.send("Target.disposeBrowserContext", browserContextId=self._context)

    # -- the page ----------------------------------------------------------------------------------------------------

    def open(self, url: str) -> None:
        """Open a page and wait until it is loaded. Load it again if an interface of the machine came or went, which
        makes the browser give up on the page or on one of its scripts."""

        def is_loaded() -> bool:
            interrupted = self._count_interrupted_requests()
            error = self.send("Page.navigate", url=url).get("errorText")
            if error == _INTERRUPTED:
                return False
            if error is not None:
                raise BrowserError(f"{url}: {error}")
            wait_until(lambda: self.evaluate("document.readyState") == "complete", ignore=_NO_CONTEXT)
            return self._count_interrupted_requests() == interrupted

        wait_until(is_loaded, timeout_s=TIMEOUT_S, describe=lambda: f"{url}: {_INTERRUPTED}")

    def _count_interrupted_requests(self) -> int:
        return sum(failure["errorText"] == _INTERRUPTED for failure in self.events("Network.loadingFailed"))

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression in the page; a promise is awaited."""
        result = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description") or details.get("text"))
        return result["result"].get("value")

    def wait_for(self, script: str, timeout_s: float = TIMEOUT_S) -> Any:
        """Poll an expression until it is true, and return its value; an element of the page counts as true."""
        return wait_until(
            lambda: self.evaluate(f"((value) => value instanceof Node || value)({script})"),
            timeout_s=timeout_s,
            ignore=_NO_CONTEXT,
            describe=lambda: f"{script}; the page shows:\n{self.text()}",
        )

    def wait_for_text(self, text: str, timeout_s: float = TIMEOUT_S) -> None:
        self.wait_for(f"document.body.innerText.includes({json.dumps(text)})", timeout_s)

    def text(self) -> str:
        return str(self.evaluate("document.body.innerText"))

    @property
    def path(self) -> str:
        return str(self.evaluate("location.pathname + location.search"))

    def errors(self) -> list[str]:
        """Return what the console shows as an error: exceptions, refused loads, violations of the policy."""
        thrown = [event["exceptionDetails"]["text"] for event in self.events("Runtime.exceptionThrown")]
        entries = [event["entry"] for event in self.events("Log.entryAdded")]
        logged = [f"{entry['text']} {entry.get('url', '')}" for entry in entries if entry["level"] == "error"]
        # The page shows client errors: no session, no permission, an invalid object, a conflict.
        return thrown + [text for text in logged if not re.search(rf"status of 4\d\d|{_INTERRUPTED}", text)]

    # -- a person ----------------------------------------------------------------------------------------------------

    def click(self, selector: str, text: str = "") -> None:
        """Click the first visible element that the selector and the text match, as a mouse does. Repeat it if a part of
        the page that arrived meanwhile has moved the element away, so that the click missed it."""
        matches = f"""((element) => element?.innerText.includes({json.dumps(text)}) && element)"""
        locate = f"""(() => {{
            const visible = [...document.querySelectorAll({json.dumps(selector)})].filter((element) =>
                {matches}(element) && element.getClientRects().length > 0);
            if (!visible.length) return null;
            visible[0].scrollIntoView({{block: "center", inline: "center"}});
            const box = visible[0].getBoundingClientRect();
            globalThis.hasMissed = true;
            addEventListener("click", (event) => {{
                if ({matches}(event.target.closest({json.dumps(selector)}))) globalThis.hasMissed = false;
            }}, {{capture: true, once: true}});
            return [box.x + box.width / 2, box.y + box.height / 2];
        }})()"""

        def has_hit() -> bool:
            x, y = self.wait_for(locate)
            for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
                self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
            try:
                return not self.evaluate("globalThis.hasMissed ?? false")
            except BrowserError:  # the click has left the page
                return True

        wait_until(has_hit, timeout_s=TIMEOUT_S, describe=lambda: f"{selector} {text} does not stay in its place")

    def fill(self, selector: str, text: str) -> None:
        """Replace the text of a field, in one step, since a dialog that opens moves the focus."""
        self.wait_for(f"document.querySelector({json.dumps(selector)})")
        self.evaluate(
            f"""(field => {{
                const value = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), "value");
                value.set.call(field, {json.dumps(text)});
                field.dispatchEvent(new InputEvent("input", {{bubbles: true}}));
            }})(document.querySelector({json.dumps(selector)}))"""
        )

    def upload(self, selector: str, *files: Path) -> None:
        """Choose files in a file field."""
        self.wait_for(f"document.querySelector({json.dumps(selector)})")
        document = self.send("DOM.getDocument")["root"]["nodeId"]
        node = self.send("DOM.querySelector", nodeId=document, selector=selector)["nodeId"]
        self.send("DOM.setFileInputFiles", nodeId=node, files=[str(path) for path in files])

    def download_to(self, directory: Path) -> None:
        """Let the page save files, without a question, in a directory."""
        self._browser.send(
            "Browser.setDownloadBehavior",
            behavior="allow",
            browserContextId=self._context,
            downloadPath=str(directory),
        )

    def choose(self, selector: str, value: str) -> None:
        """Choose an option of a select element."""
        self.wait_for(f"document.querySelector({json.dumps(selector)})")
        self.evaluate(
            f"(e => {{ e.value = {json.dumps(value)}; e.dispatchEvent(new Event('change', {{bubbles: true}})); }})"
            f"(document.querySelector({json.dumps(selector)}))"
        )

    def press(self, *keys: str) -> None:
        """Press keys after each other; `Ctrl+k` holds Control."""
        for key in keys:
            modifiers = 2 if key.startswith("Ctrl+") else 0
            name = key.removeprefix("Ctrl+")
            code, number, text = _KEYS.get(name, _character_key(name))
            common = {"key": " " if name == "Space" else name, "code": code, "windowsVirtualKeyCode": number}
            down = {"text": text} if text and not modifiers else {}
            kind = "keyDown" if down else "rawKeyDown"
            self.send("Input.dispatchKeyEvent", type=kind, modifiers=modifiers, **common, **down)
            self.send("Input.dispatchKeyEvent", type="keyUp", modifiers=modifiers, **common)

    def type_text(self, text: str) -> None:
        """Type a text key by key into the element that has the focus."""
        self.press(*(_NAMED_KEYS.get(character, character) for character in text))

    # -- the screen --------------------------------------------------------------------------------------------------

    def set_size(self, width: int, height: int) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )

    def prefer(self, **features: str) -> None:
        """Set media features: `prefer(color_scheme="dark", reduced_motion="reduce")`."""
        named = [{"name": f"prefers-{name.replace('_', '-')}", "value": value} for name, value in features.items()]
        self.send("Emulation.setEmulatedMedia", features=named)

    def screenshot(self, path: Path, **options: Any) -> None:
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", **options)["data"]))

    @contextlib.contextmanager
    def trace(self) -> Iterator[list[dict[str, Any]]]:
        """Collect the events of frames and tasks during the block; the list is filled at its end."""
        collected: list[dict[str, Any]] = []
        timeline = "disabled-by-default-devtools.timeline"
        categories = f"devtools.timeline,{timeline},{timeline}.frame"
        self.send("Tracing.start", transferMode="ReportEvents", categories=categories)
        yield collected
        self.send("Tracing.end")
        wait_until(lambda: self.events("Tracing.tracingComplete"), timeout_s=TIMEOUT_S)
        collected.extend(event for batch in self.events("Tracing.dataCollected") for event in batch["value"])

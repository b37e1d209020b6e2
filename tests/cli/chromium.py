"""A headless Chromium that a test drives over a pipe, in the browser's own protocol.

    with Chromium() as browser:
        page = browser.open(path, width=400, dark=True)
        page.evaluate("document.title")

What a page says on its console, throws, and asks of the network is kept: page.errors,
page.requests (all but the file itself).
"""
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find():
    """The browser's path; None where there is none."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Page:
    def __init__(self, browser, session):
        self.browser, self.session = browser, session
        self.errors, self.requests = [], []

    def call(self, method, **parameters):
        return self.browser.call(method, parameters, self.session)

    def evaluate(self, script):
        """The value of a script; a promise is waited for."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def wait(self, script, what, seconds=60):
        end = time.monotonic() + seconds
        while not self.evaluate(script):
            assert time.monotonic() < end, "%s: not within %d s; %s" % (what, seconds, self.errors)
            time.sleep(0.05)

    def hover(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, path, width):
        """All of the page, however long."""
        height = self.evaluate("document.documentElement.scrollHeight")
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip={
            "x": 0, "y": 0, "width": width, "height": height, "scale": 1})
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))

    def take(self, event):
        """One that the browser told of this page."""
        kind, told = event["method"], event["params"]
        if kind == "Runtime.exceptionThrown":
            self.errors.append(told["exceptionDetails"].get("exception", {}).get("description", ""))
        elif kind == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(a.get("value")) for a in told["args"]))
        elif kind == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.errors.append(told["entry"]["text"])
        elif kind == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])


class Chromium:
    def __init__(self):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, ours = os.pipe()
        theirs, from_browser = os.pipe()

        def place():  # the browser reads from 3 and writes to 4
            first, second = os.dup(ours_read), os.dup(from_browser)
            os.dup2(first, 3)
            os.dup2(second, 4)

        ours_read, self.out, self.into = to_browser, ours, theirs
        self.process = subprocess.Popen(
            (find(), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--disable-background-networking", "--disable-component-update", "--no-first-run",
             "--remote-debugging-pipe", "--user-data-dir=" + self.profile.name, "about:blank"),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            close_fds=False, preexec_fn=place)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.count, self.pages = b"", 0, {}

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.into)
        self.profile.cleanup()

    def read(self, end):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.into], [], [], max(0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            data = os.read(self.into, 1 << 16)
            assert data, "the browser has gone"
            self.buffer += data
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def call(self, method, parameters, session=None):
        self.count += 1
        nth = self.count
        asked = {"id": nth, "method": method, "params": parameters}
        if session:
            asked["sessionId"] = session
        os.write(self.out, json.dumps(asked).encode() + b"\0")
        end = time.monotonic() + 120
        while True:
            told = self.read(end)
            if told.get("id") == nth:
                assert "error" not in told, "%s: %s" % (method, told["error"])
                return told["result"]
            page = self.pages.get(told.get("sessionId"))
            if page and "method" in told:
                page.take(told)

    def open(self, path, width=1280, height=900, dark=False, media=""):
        """The file in a tab of its own, as soon as its charts are drawn."""
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        page = self.pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(domain + ".enable")
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)
        page.call("Emulation.setEmulatedMedia", media=media, features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        url = pathlib.Path(path).resolve().as_uri()
        page.call("Page.navigate", url=url)
        page.wait("document.readyState === 'complete'", "the page")
        page.wait("[...document.querySelectorAll('[data-chart]')].every((p) => p.dataset.drawn)",
                  "the charts")
        page.requests = [asked for asked in page.requests if asked not in (url, "about:blank")]
        return page

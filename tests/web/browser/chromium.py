"""Chromium, headless, with its log and a checker for accessibility."""

from __future__ import annotations

import base64
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from tests.servers.process import ServerError, program

FLAGS = (
    "--headless=new",
    "--no-sandbox",  # tests run as root in a container
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    # It must ask nobody for anything.
    "--no-first-run",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    # A figure of the test must not depend on which monitor it has.
    "--force-device-scale-factor=1",
    "--hide-scrollbars",
)
AXE = Path(__file__).parents[1] / "node_modules" / "axe-core" / "axe.min.js"
PATIENCE = 30.0
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
CHECK = """
const done = arguments[arguments.length - 1];
axe.run(document, {runOnly: {type: 'tag', values: arguments[0]}, resultTypes: ['violations']}).then(
  found => done(found.violations.map(each => ({
    id: each.id, impact: each.impact, help: each.help,
    nodes: each.nodes.slice(0, 5).map(node => node.html + ' ' + (node.failureSummary || '')),
  }))),
  error => done([{id: String(error), impact: 'critical', help: '', nodes: []}]),
);
"""


class Chromium:
    """One browser with a profile of its own. `with` starts and ends it."""

    def __enter__(self) -> Self:
        """Start."""
        self._profile = tempfile.TemporaryDirectory(prefix="chromium-")
        options = webdriver.ChromeOptions()
        options.binary_location = program("chromium")
        for flag in (*FLAGS, f"--user-data-dir={self._profile.name}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        try:
            # With its path, selenium looks for no driver elsewhere, and downloads none.
            service = Service(program("chromedriver"))
            self.driver = webdriver.Chrome(options=options, service=service)
        except BaseException:
            self._profile.cleanup()
            raise
        self.driver.set_page_load_timeout(PATIENCE)
        self.driver.set_script_timeout(PATIENCE)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it, and remove the profile."""
        self.driver.quit()
        self._profile.cleanup()

    def cdp(self, method: str, **arguments: Any) -> Any:  # noqa: ANN401  # of the protocol
        """Send a command of the DevTools protocol."""
        return self.driver.execute_cdp_cmd(method, arguments)

    def fresh(self) -> None:
        """Forget cookies, media, sizes and the log: another test begins."""
        self.cdp("Network.clearBrowserCookies")
        self.cdp("Emulation.setScriptExecutionDisabled", value=False)
        self.media()
        self.size(1300)
        self.driver.get("about:blank")
        self.log()

    def size(self, width: int, height: int = 900) -> None:
        """Make the window as wide as that, as a device has it: a window has a least width."""
        self.cdp(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def media(self, scheme: str = "light") -> None:
        """Prefer light or dark, and nothing that moves."""
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.cdp("Emulation.setEmulatedMedia", features=features)

    def scripts(self, *, allowed: bool) -> None:
        """Run the scripts of pages, or not."""
        self.cdp("Emulation.setScriptExecutionDisabled", value=not allowed)

    def open(self, url: str) -> None:
        """Load a page."""
        self.driver.get(url)

    def log(self) -> list[str]:
        """Return what the console has said since the last look: errors, and violations of CSP."""
        return [f"{each['level']} {each['message']}" for each in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]  # selenium's

    def run(self, script: str, *arguments: object) -> Any:  # noqa: ANN401  # what the script returns
        """Run a script in the page, and return its result."""
        return self.driver.execute_script(script, *arguments)

    def text(self) -> str:
        """Return what a reader sees."""
        return self.one("body").text

    def all(self, selector: str) -> list[WebElement]:
        """Return the elements that a CSS selector finds."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        """Return the only element that a CSS selector finds."""
        (found,) = self.all(selector)
        return found

    def click(self, selector: str) -> None:
        """Click on the only element that a CSS selector finds, as soon as it is there."""

        def clicked() -> bool:
            self.one(selector).click()
            return True

        self.until(clicked, f"{selector} can be clicked")

    def until(self, condition: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
        """Wait until something holds. An element may be replaced while it is looked at."""
        end = time.monotonic() + patience
        while True:
            try:
                if condition():
                    return
            except Exception:  # of selenium, or of the test's own unpacking
                if time.monotonic() > end:
                    raise
            if time.monotonic() > end:
                raise ServerError(f"not within {patience:g} s: {what}. The page:\n{self.text()}")
            time.sleep(0.05)

    def faults(self) -> list[str]:
        """Return the serious and critical faults that axe-core finds in the page."""
        if not AXE.exists():
            raise ServerError("axe-core is not installed: run `npm ci --prefix tests/web`")
        self.run(AXE.read_text("utf-8"))
        found: list[dict[str, Any]] = self.driver.execute_async_script(CHECK, RULES)
        return [
            f"{each['impact']} {each['id']}: {each['help']}: {each['nodes']}"
            for each in found
            if each["impact"] in {"serious", "critical"}
        ]

    def screenshot(self) -> bytes:
        """Return the whole page as PNG."""
        found = self.cdp("Page.getLayoutMetrics")["cssContentSize"]
        whole = {"x": 0, "y": 0, "width": found["width"], "height": found["height"], "scale": 1}
        taken = self.cdp("Page.captureScreenshot", clip=whole, captureBeyondViewport=True)
        return base64.b64decode(taken["data"])

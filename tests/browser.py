# SPDX-License-Identifier: MIT
"""A page in headless Chromium, for the tests of pages."""

import base64
import json
import os
import shutil
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
from under import HANG

PHONE, DESKTOP = (390, 844), (1280, 900)

# Every label of a picture that another one covers or that reaches beyond the picture. A label's box
# has room above and below its letters, and turned ones stand close: 3 pixels are no harm.
LABELS_IN_TROUBLE = """
const found = [];
for (const plot of document.querySelectorAll('.plot')) {
  const frame = plot.getBoundingClientRect();
  const labels = [...plot.querySelectorAll('svg text')]
    .filter(label => label.textContent.trim() && !label.closest('.hoverlayer, defs'))
    .map(label => [label.textContent, label.getBoundingClientRect()])
    .filter(([, box]) => box.width > 0);
  labels.forEach(([text, box], place) => {
    if (box.left < frame.left - 1 || box.right > frame.right + 1 ||
        box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
      found.push(`${plot.id}: "${text}" is cut`);
    for (const [other, theirs] of labels.slice(place + 1)) {
      const width = Math.min(box.right, theirs.right) - Math.max(box.left, theirs.left);
      const height = Math.min(box.bottom, theirs.bottom) - Math.max(box.top, theirs.top);
      if (width > 1 && height > 3) found.push(`${plot.id}: "${text}" lies over "${other}"`);
    }
  });
}
return found;
"""


class Browser:
    """Opens files and tells what they did: script errors and requests included."""

    def __init__(self, profile: Path) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        options.binary_location = str(shutil.which("chromium"))
        for argument in (
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            f"--user-data-dir={profile}",
        ):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = Service(str(shutil.which("chromedriver")))
        self.driver = webdriver.Chrome(service=service, options=options)
        self.driver.set_page_load_timeout(HANG)
        self.driver.set_script_timeout(HANG)

    def open(self, page: Path, size: tuple[int, int] = DESKTOP, scheme: str = "light") -> None:
        """Loads a page and waits until its pictures are drawn."""
        width, height = size
        self.cdp(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.scheme(scheme)
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(page.resolve().as_uri())
        self.wait_until(
            lambda: self.run(
                "return document.documentElement.dataset.drawn !== undefined"
                " || !document.getElementById('trouble').hidden"
            )
        )

    def scheme(self, scheme: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.cdp("Emulation.setEmulatedMedia", features=features)

    def cdp(self, command: str, **parameters: Any) -> Any:
        return self.driver.execute_cdp_cmd(command, parameters)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def labels_in_trouble(self) -> list[str]:
        return list(self.run(LABELS_IN_TROUBLE))

    def errors(self) -> list[str]:
        """What went wrong in the page's scripts or was refused by its policy."""
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if entry["level"] in ("SEVERE", "WARNING")
        ]

    def requests(self) -> list[str]:
        """Every address that a page of ours asked for, its own included; data and blob are no
        requests, and the browser's own start page may still be loading."""
        messages = [
            json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")
        ]
        asked = [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
            and not message["params"]["documentURL"].startswith("chrome:")
        ]
        return [address for address in asked if not address.startswith(("data:", "blob:"))]

    def print_pdf(self) -> bytes:
        return base64.b64decode(self.cdp("Page.printToPDF", printBackground=True)["data"])

    def move_to(self, x: float, y: float) -> None:
        self.cdp("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """With the left button down."""
        for kind, (x, y) in (
            *(("mouseMoved", start), ("mousePressed", start)),
            *(("mouseMoved", end), ("mouseReleased", end)),
        ):
            self.cdp("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def double_click(self, selector: str) -> None:
        """In one request to the driver. A page counts two clicks as one double click only where
        they come fast enough (Plotly: within 0.3 s), so a caller on a slow machine repeats it."""
        from selenium.webdriver.common.action_chains import ActionChains

        element = self.driver.find_element("css selector", selector)
        ActionChains(self.driver).double_click(element).perform()

    def wait_until(self, true: Callable[[], Any]) -> Any:
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.driver, HANG).until(lambda _: true())

    def wait_for(self, selector: str) -> str:
        """The text of the first such element, once there is one."""
        ask = "return document.querySelector(arguments[0])?.textContent"
        return str(self.wait_until(lambda: self.run(ask, selector)))

    def close(self) -> None:
        self.driver.quit()


def missing() -> str | None:
    """Why no browser can be had, None when one can."""
    for program, package in (("chromium", "chromium"), ("chromedriver", "chromium-driver")):
        if shutil.which(program) is None:
            return f"{program} is missing: Debian package {package}"
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is missing: Debian package python3-selenium"
    return None


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if reason := missing():
        pytest.skip(reason)
    os.environ.setdefault("HOME", "/tmp")
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()

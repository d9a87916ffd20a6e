"""A headless Chromium that looks at a page, and what it said and asked for."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
DRIVERS = ("chromedriver", "chromium.chromedriver")


def why_no_browser() -> str:
    """What is missing here; "" if nothing is."""
    try:
        import selenium  # noqa: F401
    except ModuleNotFoundError:
        return "selenium is not installed: pip install 'streamdec[browser]'"
    if _found(CHROMIUMS) is None or _found(DRIVERS) is None:
        return "no Chromium with its driver here: apt-get install chromium chromium-driver"
    return ""


def _found(names: tuple[str, ...]) -> str | None:
    return next((path for name in names if (path := shutil.which(name))), None)


class Browser:
    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, path: Path) -> None:
        self.driver.get(path.as_uri())

    def run(self, script: str, *arguments: Any) -> Any:
        """What ``return ...`` in the page gives."""
        return self.driver.execute_script(script, *arguments)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)

    def text(self, selector: str) -> str:
        """What is in the first such element, seen or not."""
        found = self.run("return document.querySelector(arguments[0]).textContent", selector)
        assert isinstance(found, str)
        return found

    def fields(self) -> dict[str, str]:
        """The panel of the current token."""
        rows: list[tuple[str, str]] = self.run(
            "return [...document.querySelectorAll('.sd-panel dt')]"
            ".map((each) => [each.textContent, each.nextSibling.textContent])"
        )
        return dict(rows)

    def said(self) -> list[str]:
        """What the page complained of since the last call: errors of scripts and of its policy."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def asked_for(self) -> list[str]:
        """The addresses that were asked for since the last call."""
        entries = self.driver.get_log("performance")
        events = [json.loads(entry["message"])["message"] for entry in entries]
        return [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
        ]


@contextmanager
def browser() -> Iterator[Browser]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = _found(CHROMIUMS) or ""
    for argument in ("--headless=new", "--no-sandbox", "--window-size=1280,860"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(_found(DRIVERS)))
    try:
        yield Browser(driver)
    finally:
        driver.quit()

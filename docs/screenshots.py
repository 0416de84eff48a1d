"""Takes the pictures of README and docs from the examples, in a browser: `make screenshots`."""

import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from docs.demo_store import EXAMPLES, make_store

DOCS = Path(__file__).parent
PICTURES = DOCS / "pictures"
# Name, path, width and height in pixels, scheme of colours.
PAGES = (
    ("gates-light", "/", 1440, 960, "light"),
    ("gates-dark", "/", 1440, 960, "dark"),
    ("gates-phone", "/", 390, 1180, "dark"),
    ("tasks", "/tasks", 1440, 760, "light"),
    ("task", "/task?id=research-heat-pumps@research-desk", 1440, 1180, "light"),
    ("overview", "/overview", 1440, 980, "light"),
)
_REPORT = (1000, 960)
_SETTINGS = '[page]\ntrace_url = "https://traces.example.com/trace/{trace_id}?span={span_id}"\n'


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the examples as if they had just run; gives the address."""
    make_store(folder / "store", time.time_ns())
    (folder / "looptrace.toml").write_text(_SETTINGS, encoding="utf-8")
    serve = [sys.executable, "-m", "looptrace", "serve", "--store", "store", "--no-grpc"]
    process = subprocess.Popen(
        [*serve, "--http-port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
    )
    try:
        said = process.stdout.readline() if process.stdout else ""
        yield re.findall(r"http://\S+", said)[0]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def take(browser: Any, address: str, name: str, size: tuple[int, int], scheme: str) -> None:
    """Take one picture, of the top of a page."""
    width, height = size
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    page.goto(address)
    page.wait_for_load_state("networkidle" if address.startswith("file:") else "load")
    page.screenshot(path=PICTURES / f"{name}.png")
    page.close()


def main() -> None:
    """Take all pictures."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("There is no Chromium; install it, as by `apt install chromium`.")
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        report = folder / "report.html"
        analyze = [sys.executable, "-m", "looptrace", "analyze", str(EXAMPLES)]
        subprocess.run([*analyze, "--format", "html", "--output", str(report)], check=True)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        take(browser, report.as_uri(), "report", _REPORT, "light")
        with served(folder) as address:
            for picture, path, width, height, scheme in PAGES:
                take(browser, address + path, picture, (width, height), scheme)
        browser.close()


if __name__ == "__main__":
    main()

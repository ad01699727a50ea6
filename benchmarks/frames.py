"""Moving about a map of 50,000 × 50,000 in a real browser: frames a second, tiles, memory.

    python benchmarks/frames.py [--length 50000] [--layers 6] [--seconds 8] [--record FILE]

A record of random queries and keys is written as benchmarks/long_map.py does, `regard serve` serves
it, and Chromium without a window opens the atlas. The map is dragged about at five zooms, from the
whole of it down to single cells, and then zoomed by the wheel, each for some seconds. The page
counts its own frames (parts/frames.js): those in which the map was drawn anew, those that the
browser showed at all, and the longest time between two. Times of tiles are the browser's, from
request to last byte; memory is the server's peak. CHROMIUM may name another browser.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from long_map import make, memory_of
from playwright.sync_api import Page, sync_playwright

ZOOMS = 5
DRAG, SPEED = 300, 500
"""How far a finger drags the map to and fro, in pixels, and how fast, in pixels a second."""
TURN, TURNING = 600, 2400
"""The same of the wheel."""
WANTED = 30
"""Frames a second."""
TILES = """() => performance.getEntriesByType("resource")
  .filter((one) => one.name.includes("/tiles/") && one.responseEnd > 0 && one.responseStatus > 0)
  .map((one) => ({ place: one.name.split("?")[0].split("/").slice(-3).map(Number),
    isExact: one.name.includes("rows=0"), took: one.responseEnd - one.requestStart }))"""


FIRST = """() => {
  const all = performance.getEntriesByType("resource");
  const tiles = all.filter((one) => one.name.includes("/tiles/"));
  const start = Math.min(...tiles.map((one) => one.startTime));
  const whole = tiles.find((one) => one.name.includes("/0/0/0?"));
  return [whole, tiles.at(-1)].map((one) => one.responseEnd - start);
}"""
GATHER = """() => {
  window.rates = [];
  window.watching?.disconnect();
  let last = document.querySelector(".rate")?.dataset.rate;
  window.watching = new MutationObserver(() => {
    const now = document.querySelector(".rate")?.dataset.rate;
    if (now && now !== last) window.rates.push(last = now);
  });
  window.watching.observe(document.body,
    { subtree: true, childList: true, attributeFilter: ["data-rate"] });
}"""
REST = 1000
"""Milliseconds after which the last movement has been counted."""
SIZE = """async () => {
  const { records } = await (await fetch("/api/runs")).json();
  return (await fetch(`/api/records/${records[0]}/atlas/encoder/0`)).json();
}"""


@contextmanager
def served(path: Path) -> Iterator[tuple[str, int]]:
    """The address of the real server, and its process."""
    command = [sys.executable, "-m", "regard", "serve", "--record", str(path), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found, "the server did not say where it is"
        yield found[0], process.pid
    finally:
        process.terminate()
        process.wait()


def movement(page: Page, move: Callable[[int], None], seconds: float) -> dict[str, Any]:
    """Move for a while; what the page counted, also where it took a stop for the end."""
    page.evaluate(GATHER)
    start, turn = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        turn += 1
        move(turn)
    # the page counts a movement when it has rested
    page.wait_for_timeout(REST)
    page.wait_for_function("() => window.rates.length > 0")
    rates = [json.loads(one) for one in page.evaluate("window.rates")]
    whole = sum(rate["seconds"] for rate in rates)
    frames = {
        name: sum(rate[name] * rate["seconds"] for rate in rates) / whole
        for name in ("drawn", "shown")
    }
    return {**frames, "longest": max(rate["longest"] for rate in rates), "seconds": whole}


def told(what: str, rate: dict[str, Any]) -> float:
    print(
        f"  {what}: {rate['drawn']:.0f} frames a second drawn, {rate['shown']:.0f} shown, the "
        f"longest {rate['longest']:.0f} ms, over {rate['seconds']:.1f} s",
        flush=True,
    )
    return float(rate["drawn"])


def moved(page: Page, seconds: float) -> list[float]:
    """Frames a second of every movement."""
    canvas = page.locator(".atlas canvas").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    session = page.context.new_cdp_session(page)

    def gesture(source: str, speed: int, across: int, down: int) -> None:
        # the browser itself makes these movements, one a frame, as a hand does
        asked = {"x": x, "y": y, "xDistance": across, "yDistance": down, "speed": speed}
        session.send(
            "Input.synthesizeScrollGesture",
            {**asked, "gestureSourceType": source, "preventFling": True},
        )

    def dragged(turn: int) -> None:
        sign = 1 if turn % 2 else -1
        gesture("touch", SPEED, sign * DRAG, sign * DRAG)

    def wheeled(turn: int) -> None:
        gesture("mouse", TURNING, 0, TURN if turn % 2 else -TURN)

    rates = []
    page.locator(".atlas [role=application]").focus()
    for step in range(ZOOMS):
        rate = movement(page, dragged, seconds)
        view = page.locator(".atlas canvas").first.get_attribute("data-view") or ""
        cells = 1 / float(view.split()[2])
        rates.append(told(f"dragging, {cells:.3g} cells to a pixel", rate))
        for _ in range(0 if step == ZOOMS - 1 else 5):
            page.keyboard.press("+")
    rates.append(told("zooming by the wheel", movement(page, wheeled, seconds)))
    return rates


def tiles(page: Page, max_zoom: int) -> None:
    """How long the tiles took that the page asked for and waited for."""
    found = page.evaluate(TILES)
    kinds = {
        "leaf tiles (a cell a pixel)": lambda one: one["place"][0] == max_zoom,
        "other tiles": lambda one: one["place"][0] < max_zoom and not one["isExact"],
        "exact tiles in idle time": lambda one: one["place"][0] < max_zoom and one["isExact"],
    }
    for name, holds in kinds.items():
        times = sorted(one["took"] for one in found if holds(one))
        if times:
            print(
                f"  {len(times)} {name}: median {statistics.median(times):.0f} ms, "
                f"slowest tenth {times[int(0.9 * (len(times) - 1))]:.0f} ms or more"
            )


def look(path: Path, seconds: float) -> bool:
    names = (os.environ.get("CHROMIUM"), "chromium", "chromium-browser")
    browser_path = next((found for name in names if name and (found := shutil.which(name))), None)
    if browser_path is None:
        sys.exit("frames: no Chromium here. Install it, or name it: CHROMIUM=/path/to/chromium.")
    with served(path) as (address, pid), sync_playwright() as play:
        browser = play.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(120_000)
        page.goto(f"{address}#/atlas?kind=encoder&layer=1&head=1")
        page.evaluate("performance.setResourceTimingBufferSize(20000)")
        # a map of fewer than 4,096 cells a tile is exact at once
        page.wait_for_function(
            "() => /of each pixel|are exact/.test("
            "document.querySelector('.exactness')?.textContent ?? '')"
        )
        whole, all_ = page.evaluate(FIRST)
        print(f"Chromium {browser.version}; from the first request for a tile the whole map takes "
              f"{whole:.0f} ms, all tiles in sight {all_:.0f} ms")  # fmt: skip
        page.wait_for_selector(".far")
        rates = moved(page, seconds)
        size = page.evaluate(SIZE)
        tiles(page, size["max_zoom"])
        print(f"  peak resident memory of the server: {memory_of(pid):.2f} GiB")
        browser.close()
    is_smooth = min(rates) > WANTED
    print(f"{'above' if is_smooth else 'NOT above'} {WANTED} frames a second")
    return is_smooth


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--length", type=int, default=50_000, help="tokens of the text (50000)")
    parser.add_argument("--layers", type=int, default=6, help="each has 8 heads (6)")
    parser.add_argument("--seconds", type=float, default=8.0, help="for each movement (8)")
    parser.add_argument("--record", type=Path, help="look at this record instead")
    asked = parser.parse_args()
    if asked.record is not None:
        return 0 if look(asked.record, asked.seconds) else 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.safetensors"
        make(path, asked.length, asked.layers, has_true_rows=False)
        return 0 if look(path, asked.seconds) else 1


if __name__ == "__main__":
    sys.exit(main())

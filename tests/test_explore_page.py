"""The page of ``zoo.explore`` in a real browser: load, click, block, play; by mouse, by keys alone, on a phone."""

from __future__ import annotations

import re
import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from explore_client import Client, serving

from zoo.data.source import DataSource
from zoo.exploring.offers import SHIPPED, Offers
from zoo.runs.agents import AgentChoice

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here: apt-get install chromium")

MAZE, OTHER = "pointmaze-medium-navigate-v0", "pointmaze-medium-stitch-v0"
PATIENCE = 60_000  # ms, on a busy machine
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with serving(Offers([AgentChoice(MAZE, file=SHIPPED / f"{MAZE}.zip", device="cpu")], DataSource())) as client:
        client.ask("map", agent=MAZE)
        yield client


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as api:
        browser = api.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(client: Client, browser: Any) -> Iterator[Open]:
    """Opens the page and waits for its plan; in the end there must have been no error in any console."""
    errors: list[str] = []
    contexts = []

    def open_page(address: str = "", width: int = 1280, height: int = 720, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        playwright.expect.set_options(timeout=PATIENCE)
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(client.server.url + address)
        page.locator("path.plan").first.wait_for(state="attached")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []


def on_screen(page: Any, client: Client, *points: tuple[float, float]) -> list[tuple[float, float]]:
    """Where points of the plane are on the screen."""
    left, right, _, top = client.ask("map", agent=MAZE)["bounds"]
    script = """([x, y]) => {
        const point = new DOMPoint(x, y).matrixTransform(document.querySelector("svg").getScreenCTM());
        return [point.x, point.y];
    }"""
    scale = 1000.0 / (right - left)
    return [tuple(page.evaluate(script, [(x - left) * scale, (top - y) * scale])) for x, y in points]


def cost(page: Any) -> int:
    return int(page.locator(".facts dd").first.inner_text())


def test_clicks_set_start_and_goal_and_blocks_change_the_plan(client: Client, open_page: Open) -> None:
    page = open_page()
    expect = playwright.expect
    start, goal, low, high = on_screen(page, client, (0.0, 0.0), (20.0, 20.0), (5.8, 6.2), (8.8, 9.2))
    page.mouse.click(*start)
    expect(page.locator("[value=goal]")).to_be_checked()  # what one wants to set next
    page.mouse.click(*goal)
    expect(page).to_have_url(re.compile(r"start=-?0?.*goal=(20|19\.9|20\.0)"))
    page.get_by_text(re.compile("Planned in")).wait_for()
    page.locator("[value=to]").check()  # the distance field, in place of ψ
    expect(page.locator(".legend")).to_contain_text("d to G")
    expect(page.locator("svg image")).to_have_count(1)

    page.wait_for_timeout(300)
    before, way = cost(page), page.locator("path.plan").get_attribute("d")
    page.locator("[value=block]").check()
    page.mouse.move(*low)
    page.mouse.down()
    page.mouse.move(*high, steps=3)
    page.mouse.up()
    expect(page.locator("rect.block")).to_have_count(1)
    expect(page.locator(".facts dd").first).not_to_have_text(str(before))
    assert cost(page) > before and page.locator("path.plan").get_attribute("d") != way
    page.locator("#undo").click()
    expect(page.locator(".facts dd").first).to_have_text(str(before))
    expect(page.locator("rect.block")).to_have_count(0)


def test_play_walks_in_the_simulator_and_says_what_happened(open_page: Open) -> None:
    page = open_page()
    page.locator("#speed").select_option("at once")
    page.locator("#play").click()
    playwright.expect(page.locator(".says")).to_contain_text(re.compile(r"It reached the goal after \d+ steps"))
    playwright.expect(page.locator("#play")).to_have_text("Play")
    assert page.locator("circle.walker").count() == 1 and page.locator("path.trail").get_attribute("d").count("L") > 50
    # On a blue map a blue or purple line is seen by its edge.
    for line in ("path.plan", "path.trail"):
        assert page.locator(f"path.casing[stroke='#fff'] + {line}").count() == 1
    page.locator("#speed").select_option("slow")
    page.locator("#play").click()
    playwright.expect(page.locator(".says")).to_contain_text("Step")
    page.locator("#play").click()
    playwright.expect(page.locator("#status")).to_have_text("Stopped.")


@pytest.mark.parametrize("width", [1280, 390])
def test_odds_are_legible_beside_the_colour_of_their_portal(open_page: Open, width: int) -> None:
    page = open_page("#agent=pointmaze-teleport-stitch-v0", width=width)
    odds = page.locator("text.odds")
    playwright.expect(odds).to_have_count(6)
    colours = {mark.get_attribute("fill") for mark in odds.locator("tspan").all()}
    assert len(colours) == 2
    edge = page.locator("svg").evaluate("svg => svg.getBoundingClientRect().right")
    assert all(label.evaluate("text => text.getBoundingClientRect().right") <= edge for label in odds.all())
    red, green, blue = (int(odds.first.get_attribute("fill")[k : k + 2], 16) for k in (1, 3, 5))
    assert max(red, green, blue) < 0x60  # on white, WCAG asks for 4.5:1


def test_keys_alone_do_it(open_page: Open) -> None:
    page = open_page()
    expect = playwright.expect
    for _ in range(8):  # through the header to the map
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.tagName") == "svg":
            break
    assert page.evaluate("document.activeElement.tagName") == "svg"
    page.keyboard.press("n")
    expect(page.locator(".here")).to_contain_text("Keypoint 0 at")
    expect(page.locator(".here")).to_contain_text("steps from S")
    before = page.url
    page.keyboard.press("g")
    page.keyboard.press("Enter")
    expect(page.locator("[value=goal]")).to_be_checked()
    page.get_by_text(re.compile("Planned in")).wait_for()
    assert page.url != before
    page.keyboard.press("b")
    page.keyboard.press("Enter")
    expect(page.locator("#status")).to_contain_text("One corner is set")
    for key in ("Shift+ArrowRight", "Shift+ArrowUp", "Enter"):
        page.keyboard.press(key)
    expect(page.locator("rect.block")).to_have_count(1)
    page.keyboard.press("u")
    expect(page.locator("rect.block")).to_have_count(0)
    seen = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.add(
            page.evaluate("document.activeElement.id || document.activeElement.name || document.activeElement.tagName")
        )
    assert {"play", "speed", "acting", "task", "tool", "background", "layer", "fit", "SUMMARY"} <= seen


def test_a_view_is_shared_by_its_address_and_saved(client: Client, open_page: Open, tmp_path: Path) -> None:
    page = open_page(f"#agent={MAZE}&compare={OTHER}&start=0,0&goal=20,20&blocks=0,1,5.8,6.2,8.8,9.2&background=none")
    expect = playwright.expect
    expect(page.locator(".panel")).to_have_count(2)
    expect(page.locator(".facts dd")).to_have_count(10)
    page.locator("#in").click()
    expect(page).to_have_url(re.compile("view="))
    other = open_page(page.url.removeprefix(client.server.url))
    expect(other.locator(".facts dd")).to_have_count(10)
    for part, attribute in (("path.plan", "d"), ("rect.block", "x")):
        one, same = ([node.get_attribute(attribute) for node in shown.locator(part).all()] for shown in (page, other))
        assert one == same and len(one) == 2
    assert page.locator("svg").first.get_attribute("viewBox") == other.locator("svg").first.get_attribute("viewBox")
    for kind in ("svg", "png"):
        with page.expect_download() as download:
            page.locator(f"#{kind}").click()
        download.value.save_as(tmp_path / f"map.{kind}")
    drawn = ElementTree.parse(tmp_path / "map.svg").getroot()
    assert drawn.tag.endswith("svg") and OTHER in "".join(drawn.itertext())
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG") and (tmp_path / "map.png").stat().st_size > 20_000


@pytest.mark.parametrize(("width", "height", "touch"), [(1280, 720, False), (390, 844, True)])
def test_it_fits_on_the_screen(open_page: Open, width: int, height: int, touch: bool) -> None:
    page = open_page(width=width, height=height, has_touch=touch, is_mobile=touch)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if not touch:
        assert page.evaluate("document.documentElement.scrollHeight") <= height
    box = page.locator("svg").bounding_box()
    assert box["width"] >= 0.5 * width and box["y"] + min(box["height"], 200) < height
    sizes = page.evaluate(
        "[...document.querySelectorAll('label, button, dd, p')].map(e => parseFloat(getComputedStyle(e).fontSize))"
    )
    assert min(sizes) >= 12
    if touch:
        page.locator("#play").tap()
        playwright.expect(page.locator(".says")).to_contain_text(re.compile("Step|reached"))

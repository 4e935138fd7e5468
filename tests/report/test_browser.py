"""The page in a real browser: it draws, answers to mouse and keys, and complains of nothing."""

import pytest

pytest.importorskip("aiohttp", reason="the DevTools client needs aiohttp, which PyG brings")

from tests.report.browser import CHROMIUM, browser
from tests.report.pages import run
from tuneup.report.page import write_page

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on PATH: install chromium to test the page in a browser"
)

SVG = "document.querySelector('[data-chart={}] .view:not([hidden]) svg')"
WHERE, COLD, TRAINING = (SVG.format(name) for name in ("where", "cold", "training"))


@pytest.fixture(scope="module")
def chromium():
    with browser() as made:
        yield made


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(path, [run(title="A run <b>of</b> mine")])
    return path


@pytest.fixture
def page(chromium, single):
    chromium.open(single)
    yield chromium
    assert chromium.problems == []


def series(chart: str) -> str:
    return f"[...{chart}.querySelectorAll('.series')].map(each => each.dataset.series)"


def legend(chart: str, k: int) -> str:
    return f"document.querySelectorAll('[data-chart={chart}] .legend button')[{k}]"


def test_every_curve_is_drawn_and_nothing_is_fetched(page, single):
    assert page.requested == [single.resolve().as_uri()]
    for chart in (WHERE, COLD, TRAINING):
        assert page.js(series(chart)) == ["Base", "TuneUp"]
        paths = page.js(f"[...{chart}.querySelectorAll('.line')].map(p => p.getTotalLength())")
        assert len(paths) == 2
        assert min(paths) > 50
    assert page.js(f"{WHERE}.querySelectorAll('.count').length") > 3
    assert page.js(f"{TRAINING}.querySelectorAll('line.stage').length") == 1
    assert page.js("document.querySelector('h1').textContent") == "A run <b>of</b> mine"


def test_the_legend_hides_and_shows(page):
    page.js(f"{legend('where', 0)}.click()")
    assert page.js(series(WHERE)) == ["TuneUp"]
    assert page.js(f"{legend('where', 0)}.getAttribute('aria-pressed')") == "false"
    assert page.js(series(COLD)) == ["Base", "TuneUp"]
    page.js(f"{legend('where', 1)}.click()")
    assert page.js(series(WHERE)) == []
    page.js(f"{legend('where', 0)}.click()")
    assert page.js(series(WHERE)) == ["Base"]


def test_tabs_change_the_picture(page):
    before = page.js(f"{WHERE}.getAttribute('aria-label')")
    page.js("document.querySelectorAll('[data-chart=where] [role=tab]')[3].click()")
    assert "90 %" in page.js(f"{WHERE}.getAttribute('aria-label')") != before
    assert (
        page.js("document.querySelectorAll('[data-chart=where] .view:not([hidden])').length") == 1
    )


def shown(page, chart: str) -> tuple[float, float]:
    return tuple(float(page.js(f"{chart}.dataset.{end}")) for end in ("from", "to"))


def test_buttons_and_keys_zoom(page):
    whole = shown(page, TRAINING)
    ticks = page.js(f"[...{TRAINING}.querySelectorAll('.xtick')].map(t => t.textContent)")
    page.js("document.querySelector('[data-chart=training] [aria-label=\"Zoom in\"]').click()")
    near = shown(page, TRAINING)
    assert near[1] - near[0] == pytest.approx((whole[1] - whole[0]) / 2, abs=0.01)
    assert page.js(f"[...{TRAINING}.querySelectorAll('.xtick')].map(t => t.textContent)") != ticks
    page.js(f"{TRAINING}.focus()")
    page.key("+")
    nearer = shown(page, TRAINING)
    assert nearer[1] - nearer[0] < near[1] - near[0]
    page.key("0")
    assert shown(page, TRAINING) == whole


def test_arrow_keys_read_values_aloud(page):
    page.js(f"{COLD}.focus()")
    page.key("ArrowRight")
    spoken = page.js("document.querySelector('[data-chart=cold] [role=status]').textContent")
    assert spoken.startswith("links removed: 0 %, Base ")
    page.key("End")
    spoken = page.js("document.querySelector('[data-chart=cold] [role=status]').textContent")
    assert spoken.startswith("links removed: 90 %, Base ")


def test_the_mouse_reads_and_drags(page):
    page.js(f"{WHERE}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    page.settle()
    box = page.js(
        f"(({{x, y, width, height}}) => [x, y, width, height])({WHERE}.getBoundingClientRect())"
    )
    left, middle, right = (box[0] + share * box[2] for share in (0.3, 0.5, 0.7))
    y = box[1] + box[3] / 3
    page.mouse("mouseMoved", middle, y)
    tip = page.js(
        "(t => t.hidden ? '' : t.textContent)(document.querySelector('[data-chart=where] .tip'))"
    )
    assert tip.startswith("links: ")
    assert "TuneUp" in tip
    assert "nodes" in tip
    whole = shown(page, WHERE)
    page.mouse("mousePressed", left, y, button="left", clickCount=1)
    page.mouse("mouseMoved", middle, y, button="left", buttons=1)
    page.mouse("mouseMoved", right, y, button="left", buttons=1)
    page.mouse("mouseReleased", right, y, button="left", clickCount=1)
    near = shown(page, WHERE)
    assert whole[0] < near[0] < near[1] < whole[1]


GROUND = "getComputedStyle(document.body).backgroundColor"


def test_dark_mode_follows_the_system_and_the_button(chromium, single):
    chromium.open(single)
    light = chromium.js(GROUND)
    chromium.open(single, dark=True)
    dark = chromium.js(GROUND)
    assert light != dark
    try:
        chromium.js("document.getElementById('theme').click()")
        assert chromium.js(GROUND) == light
        assert chromium.js("document.getElementById('theme').textContent") == "Dark"
    finally:
        chromium.js("localStorage.clear()")
    assert chromium.problems == []


def test_a_phone_shows_all_of_it(chromium, single):
    width = 360
    chromium.open(single, width, 800, dark=True)
    assert chromium.js("document.documentElement.scrollWidth") == width
    wide = chromium.js(
        "[...document.querySelectorAll('.view:not([hidden]) svg text')].filter(t => {"
        " const own = t.getBoundingClientRect(), all = t.ownerSVGElement.getBoundingClientRect();"
        " return own.left < all.left - 1 || own.right > all.right + 1; }).map(t => t.textContent)"
    )
    assert wide == [], "clipped at an edge"
    assert chromium.problems == []


def test_paper_is_light_and_has_every_picture(chromium, single):
    chromium.open(single, dark=True)
    assert chromium.pdf().startswith(b"%PDF")
    media = {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    chromium.send("Emulation.setEmulatedMedia", **media)
    assert chromium.js(GROUND) == "rgb(255, 255, 255)"
    views = "[...document.querySelectorAll('[data-chart=where] .view')]"
    heights = chromium.js(f"{views}.map(view => view.offsetHeight)")
    assert len(heights) == 4
    assert min(heights) > 100
    assert chromium.js("document.getElementById('theme').offsetHeight") == 0
    assert chromium.problems == []


def test_a_comparison_draws_every_run(chromium, tmp_path):
    path = tmp_path / "both.html"
    write_page(path, [run(0.0), run(0.1, seeds=2)], ["runs/a", "runs/b"])
    chromium.open(path)
    names = ["a · Base", "a · TuneUp", "b · Base", "b · TuneUp"]
    for chart in (WHERE, COLD, TRAINING):
        assert chromium.js(series(chart)) == names
    assert chromium.problems == []


def test_what_is_in_the_data_never_runs(chromium, tmp_path):
    path = tmp_path / "nasty.html"
    attack = "</script><script>window.hacked=1</script><img src=x onerror='window.hacked=1'>"
    write_page(path, [run(title=attack)])
    chromium.open(path)
    assert chromium.js("window.hacked") is None
    assert chromium.js("document.querySelector('h1').textContent") == attack
    assert chromium.problems == []

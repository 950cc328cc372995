"""The report in a real browser, headless: no error, the inspector steps, nothing is wider than a telephone.

Needs Debian's chromium (apt-get install --no-install-recommends chromium); skipped without it, but not in CI.
"""

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from tests.test_report import built, embedded, stream  # noqa: F401

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None and os.environ.get("CI") != "true", reason="no chromium on this machine"
)
MEASURE = """
document.body.style.width = "400px"; // the window itself gets no narrower than 500
document.title = JSON.stringify([document.body.scrollWidth, getComputedStyle(document.body).backgroundColor]);
"""


@pytest.fixture(scope="module")
def text(stream) -> str:  # noqa: F811
    return built(stream)


def opened(text: str, folder: Path, address: str = "", script: str = "", flags: tuple[str, ...] = ()):
    """(the page's elements after its scripts and then `script` have run, what it logged)."""
    assert CHROMIUM, "chromium is not installed: apt-get install --no-install-recommends chromium"
    file = folder / "report.html"
    file.write_text(text.replace("</body>", f"<script>{script}</script></body>") if script else text)
    done = subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
            f"--user-data-dir={folder}/profile", "--enable-logging=stderr", "--virtual-time-budget=3000", *flags,
            "--dump-dom", f"{file.as_uri()}{address}",
        ],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def measured(dom: str) -> tuple[int, str]:
    """What MEASURE found: the width of a narrow page's content, the colour of the paper."""
    return json.loads(html.unescape(re.search(r"<title>(.*?)</title>", dom)[1]))


def caption(dom: str) -> str:
    return re.search(r'<p id="caption"[^>]*>(.*?)</p>', dom)[1]


def test_the_inspector_shows_the_first_step_and_a_narrow_window_needs_no_sideways_scrolling(text, tmp_path):
    picture = tmp_path / "narrow.png"
    flags = ("--window-size=400,900", f"--screenshot={picture}")
    dom, logged = opened(text, tmp_path, script=MEASURE, flags=flags)
    assert not logged
    assert caption(dom).startswith("Step 1 of ")
    assert dom.count('class="node own"') == 1 and "<option" in dom and 'id="question">' in dom
    assert measured(dom)[0] == 400
    seen = Image.open(picture).convert("L")
    assert seen.size == (400, 900) and len(seen.getcolors()) > 20


def test_an_address_names_a_step_and_keys_and_buttons_go_on_from_it(text, tmp_path):
    dom, logged = opened(text, tmp_path, "#step=2")
    assert not logged and caption(dom).startswith("Step 2 of ")
    long = 1 + next(place for place, it in enumerate(embedded(text)["requests"]) if len(it["steps"]) > 4)
    script = """
    document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true}));
    document.getElementById("next").click();
    document.getElementById("next").click();
    document.getElementById("previous").click();
    """
    dom, logged = opened(text, tmp_path, f"#request={long}&step=2", script + MEASURE)
    assert not logged and caption(dom).startswith("Step 4 of ")


def test_a_dark_page_is_dark_and_play_runs_to_the_end(text, tmp_path):
    script = 'document.getElementById("play").click(); ' + MEASURE
    flags = ("--blink-settings=preferredColorScheme=0", "--virtual-time-budget=120000")
    dom, logged = opened(text, tmp_path, script=script, flags=flags)
    assert not logged
    number, of = map(int, re.match(r"Step (\d+) of (\d+)", caption(dom)).groups())
    assert number == of > 1 and ">Play</button>" in dom
    assert max(map(int, re.findall(r"\d+", measured(dom)[1]))) < 64


def test_an_error_in_the_page_would_be_seen(text, tmp_path):
    _, logged = opened(text, tmp_path, script="nowhere();")
    assert len(logged) == 1 and "nowhere is not defined" in logged[0]

"""The page in a real browser: what a person sees, does and waits for."""

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider

from looptrace.collector import LoopSpanProcessor
from looptrace.collector.sdk.agent_gate import AgentGate
from tests.collector.page.conftest import SETTINGS, TOKEN, send, served_by
from tests.collector.page.test_task_pages import PAYLOADS, hostile, two_agents
from tests.otlp import Trace, tool_call
from tests.paths import ROOT
from tests.reliability.serving import DEADLINE_S, Served, looping, served, until

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="needs playwright: `pip install playwright`"
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
AXE = ROOT / "build" / "npm" / "node_modules" / "axe-core" / "axe.min.js"
WIDTHS = (390, 1440, 2560)
SCHEMES = ("light", "dark")
# What is promised: from a gate's span to the page, and from the decision to the agent.
GATE_S, DECISION_S = 2.0, 1.0
TRIES = 5
PATHS = [
    *("/", "/incidents", "/tasks", "/task?id=pair", "/overview"),
    *("/rules", "/webhooks", "/settings", "/health"),
]

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs a browser: `apt install chromium`")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Start the browser."""
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve a store with gates, and a task of two agents."""
    with served_by(tmp_path_factory.mktemp("browser"), TOKEN) as found:
        send(found, looping("s1", 6).request())
        send(found, two_agents("pair").request())
        yield found


class Visit:
    """A tab, with all that it asked for and complained of."""

    def __init__(self, page: Any, address: str) -> None:
        self.page = page
        self.home = f"http://{address}"
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog {dialog.message}"))

    def _console(self, message: Any) -> None:
        # A browser says so of every answer that is an error, also of those that are shown.
        if message.type == "error" and "the server responded with a status" not in message.text:
            self.complaints.append(message.text)

    def go(self, path: str) -> None:
        """Open a page of the server."""
        self.page.goto(self.home + path)

    def shows(self, path: str, selector: str, count: int) -> bool:
        """Open a page, and return whether it has so many of something."""
        self.go(path)
        return bool(self.page.locator(selector).count() == count)


@contextmanager
def visiting(
    chromium: Any, server: Served, *, signs_in: bool = True, **options: Any
) -> Iterator[Visit]:
    """Open a tab; in the end it has complained of nothing and asked no other host."""
    context = chromium.new_context(**options)
    context.set_default_timeout(1_000 * DEADLINE_S)
    visit = Visit(context.new_page(), server.address)
    if signs_in:
        visit.go("/")
        visit.page.get_by_label("Token of this server").fill(TOKEN)
        visit.page.get_by_role("button", name="Sign in").click()
        visit.page.get_by_role("heading", level=1).wait_for()
    yield visit
    context.close()
    assert visit.complaints == []
    assert [url for url in visit.requests if not url.startswith(visit.home)] == []


@pytest.fixture
def visit(chromium: Any, server: Served) -> Iterator[Visit]:
    """Return a tab of a signed-in person."""
    with visiting(chromium, server) as opened:
        yield opened


def test_whoever_signs_in_gets_where_they_wanted(chromium: Any, server: Served) -> None:
    """A wrong token is said; the right one leads on; after signing out the page is closed."""
    with visiting(chromium, server, signs_in=False) as visit:
        page = visit.page
        visit.go("/task?id=pair")
        page.get_by_label("Token of this server").fill("wrong")
        page.keyboard.press("Enter")
        page.get_by_role("alert").get_by_text("not a token of this server").wait_for()
        page.get_by_label("Token of this server").fill(TOKEN)
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="pair").wait_for()
        assert "sign-in" not in page.url
        assert page.evaluate("document.cookie") == ""  # No script reads them.
        page.get_by_role("button", name="Sign out").click()
        page.get_by_role("heading", name="Sign in").wait_for()
        visit.go("/task?id=pair")
        page.get_by_role("heading", name="Sign in").wait_for()


def test_a_gate_appears_and_a_decision_reaches_the_agent(chromium: Any, tmp_path: Path) -> None:
    """Within 2 s of the turn that caused it, by itself; and a waiting agent goes on within 1 s.

    A crowded machine is slower now and then; whoever waits for a clock is so at each of the tries.
    """
    with served(tmp_path / "store") as server:
        processor = LoopSpanProcessor.forward(f"http://{server.address}")
        provider = TracerProvider()
        provider.add_span_processor(processor)
        with visiting(chromium, server, signs_in=False) as visit:
            visit.go("/")
            took = []
            for number in range(TRIES):
                visit.page.get_by_role("heading", name="No gate is open").wait_for()
                gate = processor.gate(f"s{number}")
                took.append(_stopped_and_sent_on(visit.page, provider, gate, f"s{number}"))
                if took[-1][0] < GATE_S and took[-1][1] < DECISION_S:
                    break
                visit.go("/")
            else:
                raise AssertionError(took)
        provider.shutdown()


def _stopped_and_sent_on(
    page: Any, provider: TracerProvider, gate: AgentGate, session: str
) -> tuple[float, float]:
    """Let an agent loop and decide on its gate; return how long each took to be seen, in s."""
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": session}
    tracer = provider.get_tracer("agent")
    with tracer.start_as_current_span("invoke_agent", attributes=attributes):
        for _ in range(3):
            _failing_call(provider)
        began_s = time.monotonic()
        page.get_by_role("heading", name="1 gate open").wait_for()
        seen_s = time.monotonic() - began_s
        page.locator("figure.strip").wait_for()  # Its turns are stored a moment later.
        assert page.title() == "(1) Gates · looptrace"
        until(lambda: gate.check().open)
        went_on: list[float] = []

        def wait() -> None:
            gate.wait(60)
            went_on.append(time.monotonic())

        waits = threading.Thread(target=wait)
        waits.start()
        page.get_by_role("radio", name="Go on The agent goes on").check()
        act = page.get_by_role("button", name=f"Go on: task {session}")
        act.click()  # It asks for a note, and sends nothing.
        asked = "e => e.validationMessage"
        assert "tick" in page.get_by_label("Note for the agent").evaluate(asked)
        page.get_by_label("Note for the agent").fill("Start the database first.")
        began_s = time.monotonic()
        act.click()
        waits.join()
        page.get_by_text("Resolved: Go on.").wait_for()
    return seen_s, went_on[0] - began_s


def _failing_call(provider: TracerProvider) -> None:
    attributes = tool_call("run_tests", "{}", result="Error: no database", error="DatabaseError")
    with provider.get_tracer("agent").start_as_current_span("execute_tool", attributes=attributes):
        pass


def test_a_note_that_is_being_written_is_not_lost(visit: Visit, server: Served) -> None:
    """While a person writes, news is offered and does not replace the page."""
    page = visit.page
    visit.go("/")
    area = page.get_by_label("Note for the agent").first
    area.fill("Half a sen")
    send(server, looping("meanwhile", 6).request())
    page.get_by_text("A gate was opened or decided.").wait_for()
    assert area.input_value() == "Half a sen"
    form = page.locator("form.decide").first
    response = httpx.post(
        f"{visit.home}/v1{form.get_attribute('data-gate')}/resolve",
        json={"decision": "reviewed"},
        headers={"authorization": f"Bearer {TOKEN}"},
        trust_env=False,
    )
    assert response.status_code == 200
    page.get_by_text("Somebody else has decided on this gate").wait_for()
    assert form.get_by_role("button").is_disabled()
    assert area.input_value() == "Half a sen"
    page.get_by_role("button", name="Show it").click()
    page.get_by_role("heading", name="2 gates open").wait_for()
    assert page.get_by_text("Half a sen").count() <= 1


def test_a_task_grows_as_its_agent_works(visit: Visit, server: Served) -> None:
    """A turn that is read stays unfolded while others come."""
    page = visit.page
    trace = Trace("grows")
    for calls in (3, 7):
        for n in range(calls):
            trace.span(
                "execute_tool",
                attributes=tool_call(
                    f"step_{calls}_{n}", f'{{"n": {n}, "why": "<i>x</i>"}}', result=f"done {n}"
                ),
            )
        send(server, trace.request())
        if calls == 3:
            until(lambda: visit.shows("/task?id=grows", "ol.turns li", 3))
            page.locator("ol.turns summary").first.click()
            page.locator("ol.turns pre").get_by_text('"why":"<i>x</i>"').wait_for()
    page.locator("ol.turns li").nth(9).wait_for()
    assert page.locator("ol.turns pre").first.is_visible()
    page.locator("#why summary").first.click()
    page.get_by_text("How far each rule got").wait_for()
    assert page.title() == "grows · looptrace"


def test_open_pages_keep_their_figures_up_to_date(chromium: Any, tmp_path: Path) -> None:
    """A gate opens while pages stand open; nobody reloads, and each page counts it."""
    shown = {
        "/overview": ("gate opened; 1 open now", "repeated_failure"),
        "/tasks": ("1 task", "waits for a person", "failed the same way 6 times"),
        "/health": ("Open gates.1", "however many rules see it.1"),
        "/": ("1 gate open", "came 6 times in the task"),
    }
    with served(tmp_path / "store", config=SETTINGS) as server:
        context = chromium.new_context()
        pages = {path: context.new_page() for path in shown}
        for path, page in pages.items():
            page.goto(f"http://{server.address}{path}")
            page.get_by_role("heading", level=1).wait_for()
        assert server.send(looping("s1", 6).request()) == 200
        for path, page in pages.items():
            page.bring_to_front()
            for text in shown[path]:
                until(partial(says, page, text))
        context.close()


def test_no_word_of_a_table_is_broken(visit: Visit) -> None:
    """A name in three pieces is read as three names."""
    visit.page.set_viewport_size({"width": 1280, "height": 800})
    for path in ("/tasks", "/overview", "/health"):
        visit.go(path)
        visit.page.locator("main td").nth(3).wait_for(state="attached")
        assert visit.page.evaluate(_BROKEN_WORDS) == [], path


_BROKEN_WORDS = """() => {
  const broken = [], within = document.createRange();
  for (const cell of document.querySelectorAll("main td:not(.words)")) {
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      for (const word of texts.currentNode.data.matchAll(/[\\w.:]+/g)) {
        within.setStart(texts.currentNode, word.index);
        within.setEnd(texts.currentNode, word.index + word[0].length);
        const lines = new Set([...within.getClientRects()].map((box) => Math.round(box.top)));
        if (lines.size > 1) broken.push(word[0]);
      }
    }
  }
  return broken;
}"""


def says(page: Any, text: str) -> bool:
    """Return whether an open page has a text."""
    shown = page.evaluate("document.getElementById('main').textContent")
    return text in " ".join(shown.split())


def test_search_finds(visit: Visit) -> None:
    """By a key, a word and Enter."""
    page = visit.page
    visit.go("/tasks")
    page.keyboard.press("/")
    page.keyboard.type("pair")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="1 task", exact=True).wait_for()
    page.get_by_role("link", name="pair").click()
    page.get_by_role("heading", name="pair").wait_for()


def test_the_keyboard_alone_resolves_a_gate(chromium: Any, server: Served) -> None:
    """From the address to the decision without a mouse, and what has the focus is seen."""
    send(server, looping("by-keyboard", 6).request())
    with visiting(chromium, server) as visit:
        page = visit.page
        visit.go("/tasks?q=by-key")
        until(lambda: page.reload() and page.get_by_role("link", name="by-keyboard").count())
        _tab_to(page, "by-keyboard")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="by-keyboard").wait_for()
        _tab_to(page, "Decide on the open gate")
        page.keyboard.press("Enter")
        page.get_by_text("How should task by-keyboard go on?").wait_for()
        _tab_to(page, "continue")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Tab")
        page.keyboard.type("Done by hand.")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.get_by_text("Resolved: Go on, the cause is gone.").wait_for()
        page.get_by_text("Done by hand.").wait_for()


def test_a_note_outlasts_a_sign_in(chromium: Any, server: Served) -> None:
    """Whoever was signed out while they wrote finds their words again."""
    send(server, looping("slow-writer", 6).request())
    with visiting(chromium, server) as visit:
        page = visit.page
        until(lambda: visit.shows("/?q=slow-writer", "form.decide", 1))
        page.get_by_role("radio", name="Go on", exact=False).first.check()
        page.locator("form.decide textarea").fill("Use the other key.")
        page.context.clear_cookies()
        page.locator("form.decide button").click()
        page.get_by_role("link", name="Sign in").click()
        page.get_by_label("Token of this server").fill(TOKEN)
        page.keyboard.press("Enter")
        page.locator("form.decide").wait_for()
        assert page.locator("form.decide textarea").input_value() == "Use the other key."
        page.get_by_role("button", name="Sign out").click()
        page.get_by_label("Token of this server").wait_for()
        assert page.evaluate("sessionStorage.length") == 0


def test_keys_walk_through_the_list_and_decide(chromium: Any, server: Served) -> None:
    """Two letters move, Enter opens beside the list, a digit chooses; a draft comes back."""
    for task in ("key-1", "key-2", "key-3"):
        send(server, looping(task, 6).request())
    with visiting(chromium, server, viewport={"width": 1440, "height": 900}) as visit:
        page = visit.page
        # By default a gate moves when it is learnt whether its agent still runs.
        until(lambda: visit.shows("/?q=key-&sort=oldest", "a[data-line]", 3))
        names = page.locator("a[data-line]").all_inner_texts()
        page.keyboard.press("?")
        page.get_by_role("heading", name="Keys").wait_for()
        page.keyboard.press("Escape")
        page.locator(".beside textarea").fill("A draft.")
        page.keyboard.press("j")  # It is a letter of the note.
        assert page.locator(".beside textarea").input_value() == "A draft.j"
        page.keyboard.press("Escape")  # Letters are keys again.
        for key in "jjk":
            page.keyboard.press(key)
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.locator(".beside h3").get_by_text(names[2]).wait_for()
        assert page.evaluate("document.activeElement.innerText") == names[2]
        assert "gate=" in page.url
        page.keyboard.press("k")
        page.keyboard.press("k")
        page.keyboard.press("Enter")
        page.locator(".beside h3").get_by_text(names[0]).wait_for()
        assert page.locator(".beside textarea").input_value() == "A draft.j"
        page.keyboard.press("3")
        assert page.get_by_role("radio", name="This is not a loop").is_checked()
        page.get_by_role("button", name=f"This is not a loop: task {names[0]}").wait_for()
        page.keyboard.press("Enter")
        page.get_by_text("Resolved: This is not a loop.").wait_for()
        until(lambda: page.locator("a[data-line]").count() == 2)
        visit.go("/?q=key-&sort=oldest")
        page.keyboard.press("1")
        page.keyboard.press("Tab")
        page.keyboard.press("Control+Enter")  # It asks for a note, and sends nothing.
        page.keyboard.type("Use the other key.")
        page.keyboard.press("Control+Enter")
        page.get_by_text("They say: Use the other key.").wait_for()
        page.go_back()


def test_a_phone_shows_the_list_or_the_gate(chromium: Any, server: Served) -> None:
    """Never both, and the way back is a link and the button of the browser."""
    send(server, looping("pocket", 6).request())
    with visiting(chromium, server, viewport={"width": 390, "height": 900}) as visit:
        page = visit.page
        until(lambda: visit.shows("/?q=pocket", "a[data-line]", 1))
        assert not page.locator(".beside").is_visible()
        page.locator("a[data-line]").click()
        page.get_by_text("How should task pocket go on?").wait_for()
        assert not page.locator(".lines").is_visible()
        page.go_back()
        page.locator(".lines").wait_for()
        assert not page.locator(".beside").is_visible()


def test_times_are_those_of_the_wall(chromium: Any, server: Served) -> None:
    """The local time is shown, and that of the logs is one look away."""
    with visiting(chromium, server, timezone_id="Asia/Kolkata") as visit:
        visit.go("/task?id=pair")
        began = visit.page.locator("dd time").first
        assert began.inner_text().startswith("2026-03-02 14:30")
        assert began.get_attribute("title") == "2026-03-02 09:00:00 UTC"
        assert "Asia/" in visit.page.locator("#zone").inner_text()


def _tab_to(page: Any, name: str) -> None:
    """Press Tab until something of this name or value has the focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        here = page.evaluate(
            "(() => { const e = document.activeElement; const s = getComputedStyle(e);"
            " return [e.innerText || e.value || '', s.outlineStyle]; })()"
        )
        assert here[1] != "none", here
        if here[0].strip() == name:
            return
    raise AssertionError(f"{name} is not reached by Tab")


def test_no_page_is_wider_than_the_screen(visit: Visit) -> None:
    """From a phone to the widest screen nothing is cut off or scrolls sideways."""
    for path in PATHS:
        visit.go(path)
        for width in WIDTHS:
            visit.page.set_viewport_size({"width": width, "height": 900})
            over = visit.page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert over <= 0, (path, width, over)


@pytest.mark.skipif(not AXE.exists(), reason="needs axe-core: `make npm-exporters`")
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS[:2])
def test_axe_finds_nothing(chromium: Any, server: Served, width: int, scheme: str) -> None:
    """Contrast, names, roles and order hold for those who see or hear a page otherwise."""
    size = {"width": width, "height": 900}
    with visiting(chromium, server, viewport=size, color_scheme=scheme) as visit:
        gate = visit.page.locator(".beside h2 a").get_attribute("href")
        beside = visit.page.locator("a[data-line]").first.get_attribute("href")
        for path in (
            *PATHS,
            gate,
            beside,
            "/?status=resolved",
            "/sign-in",
            "/gates/none",
            "/task/turn?id=pair&row=1",
        ):
            visit.go(path)
            visit.page.evaluate(AXE.read_text(encoding="utf-8"))
            found = visit.page.evaluate("axe.run()")["violations"]
            shown = [
                (each["id"], [node["html"][:150] for node in each["nodes"][:3]]) for each in found
            ]
            assert shown == [], path


def test_hostile_payloads_run_nothing_and_break_no_layout(chromium: Any, server: Served) -> None:
    """Whatever a trace says, a browser runs none of it and draws the page as ever."""
    for number, payload in enumerate(PAYLOADS[:40]):
        send(server, hostile(number, payload).request())
    with visiting(chromium, server, viewport={"width": 390, "height": 900}) as visit:
        page = visit.page
        until(lambda: visit.shows("/?q=h39", "a[data-line]", 1))
        for path in ("/", "/tasks", "/overview"):
            visit.go(path)
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path
        visit.go("/tasks?q=h1")
        for link in [each.get_attribute("href") for each in page.locator("td a").all()[:12]]:
            visit.go(link)
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, link


def test_a_server_that_is_away_is_said(chromium: Any, tmp_path: Path) -> None:
    """A person who watches the page at night must not mistake silence for health."""
    with served(tmp_path / "store") as server:
        context = chromium.new_context()
        page = context.new_page()
        page.goto(f"http://{server.address}/")
        page.get_by_text("No gate is open").wait_for()
        server.kill()
        page.get_by_text("No connection to the server").wait_for(timeout=20_000)
        context.close()

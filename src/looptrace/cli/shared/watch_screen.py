"""The screen of `looptrace watch`: gates, tasks close to a loop, and the keys."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rich.console import Console, Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from looptrace.analyzer.gates.agent_states import by_agent
from looptrace.analyzer.gates.decisions import NOTE_CHARS_MAX, NOTED, Decision
from looptrace.analyzer.report.wording import counted, duration_text
from looptrace.analyzer.text.display import plain
from looptrace.collector.api_bodies import WarmingTask
from looptrace.collector.store.gate_file.stored_gates import StoredGate
from looptrace.rules.vocabulary import NS_PER_S

# By key; the words are those of the page.
DECISION_KEYS: dict[str, tuple[Decision, str]] = {
    "c": ("continue", "go on"),
    "r": ("reviewed", "go on, the cause is gone"),
    "n": ("not_a_loop", "this is not a loop"),
    "x": ("cancel", "cancel the task"),
}
UP, DOWN, ESCAPE, ENTER, BACKSPACE = "up", "down", "escape", "enter", "backspace"
QUIT = "q"
_STEPS = {UP: -1, "k": -1, DOWN: 1, "j": 1}
_NAME_LENGTH_MAX, _REASON_LENGTH_MAX = 40, 240
# Lines of the screen that are not gates or tasks; a gate takes two lines.
_LINES_AROUND, _LINES_A_GATE = 9, 2


class ScreenDecision(NamedTuple):
    """A decision at the keyboard."""

    gate: str
    decision: Decision
    note: str | None


@dataclass(slots=True)
class WatchScreen:
    """The state of the screen: the gates, the selected gate, and the note that is being typed."""

    gates: Sequence[StoredGate] = ()
    warming: Sequence[WarmingTask] = ()
    message: str = ""
    chosen: str = ""  # id of a gate
    _decision: Decision | None = field(default=None)
    _note: str = field(default="")

    def show(self, gates: Sequence[StoredGate], warming: Sequence[WarmingTask]) -> None:
        """Update the screen; the selected gate stays selected while it is open."""
        undecided = (gate for gate in gates if gate.decision is None)
        self.gates = sorted(undecided, key=lambda gate: by_agent(gate.agent_state))
        self.warming = warming
        ids = [gate.id for gate in self.gates]
        if self.chosen not in ids:
            self.chosen = next(iter(ids), "")
            if self._decision is not None:
                self._decision, self.message = None, "The gate is no longer open."

    def press(self, key: str) -> ScreenDecision | None:
        """Handle a key; returns a decision when one is complete."""
        if self._decision is not None:
            return self._type(key)
        self.message = ""
        if key in _STEPS and self.gates:
            ids = [gate.id for gate in self.gates]
            place = ids.index(self.chosen) + _STEPS[key]
            self.chosen = ids[min(max(place, 0), len(ids) - 1)]
        elif key in DECISION_KEYS and self.chosen:
            self._decision, self._note = DECISION_KEYS[key][0], ""
        return None

    @property
    def is_typing(self) -> bool:
        """Whether keys are letters of a note."""
        return self._decision is not None

    def _type(self, key: str) -> ScreenDecision | None:
        decision, note = self._decision, self._note.strip() or None
        self.message = ""
        if key == ESCAPE:
            self._decision = None
        elif key == BACKSPACE:
            self._note = self._note[:-1]
        elif key == ENTER and decision in NOTED and not note:
            self.message = "Without a note the agent fails in the same way again; write one."
        elif key == ENTER and decision:
            self._decision = None
            return ScreenDecision(self.chosen, decision, note)
        elif len(key) == 1 and key.isprintable():
            self._note = (self._note + key)[:NOTE_CHARS_MAX]
        return None

    def render(self, where: str, now_ns: int, console: Console) -> RenderableType:
        """Draw as much of the screen as there are lines."""
        room = max(1, console.height - _LINES_AROUND - min(len(self.warming), console.height // 4))
        shown = room // _LINES_A_GATE or 1
        ids = [gate.id for gate in self.gates]
        place = ids.index(self.chosen) if self.chosen in ids else 0
        first = max(0, min(place - shown // 2, len(ids) - shown))
        marker = ">" if console.options.ascii_only else "▸"
        parts: list[RenderableType] = [
            Text.assemble(("looptrace watch ", "bold"), plain(where, _REASON_LENGTH_MAX)),
            _title(counted(len(self.gates), "open gate"), console),
        ]
        for gate in self.gates[first : first + shown]:
            parts += _gate_lines(gate, now_ns, marker if gate.id == self.chosen else " ")
        if not self.gates:
            parts.append(Text("No gate is open.", style="dim"))
        parts.append(_title(counted(len(self.warming), "task") + " one attempt short", console))
        parts.append(_warming_table(self.warming[: max(1, console.height // 4)], now_ns))
        parts += [_title("", console), self._foot()]
        return Group(*parts)

    def _foot(self) -> Text:
        if self._decision is not None:
            words = dict(DECISION_KEYS.values())[self._decision]
            note = plain(self._note, NOTE_CHARS_MAX) if self._note else ""
            how = self.message or "enter sends, escape goes back"
            return Text(f"{words}; a note for the agent: {note}_\n{how}")
        keys = ", ".join(f"{key} {words}" for key, (_, words) in DECISION_KEYS.items())
        return Text(f"{self.message or ' '}\nup/down choose; {keys}; {QUIT} quit")


def _title(text: str, console: Console) -> Rule:
    return Rule(
        text, align="left", style="dim", characters="-" if console.options.ascii_only else "─"
    )


def _gate_lines(gate: StoredGate, now_ns: int, marker: str) -> list[Text]:
    age = duration_text(max(0, now_ns - gate.opened_ns) / NS_PER_S)
    agent = f", agent {plain(gate.agent, _NAME_LENGTH_MAX)}" if gate.agent else ""
    style = "bold" if marker.strip() else ""
    head = f"{marker} {gate.id}  task {plain(gate.task, _NAME_LENGTH_MAX)}{agent}, open for {age}"
    doing = f"{gate.agent_state.text}; " if gate.agent_state else ""
    reason = f"    {doing}{gate.rule}: {plain(gate.reason, _REASON_LENGTH_MAX)}"
    return [
        Text(head, style=style, no_wrap=True, overflow="ellipsis"),
        Text(reason, style=style or "dim", no_wrap=True, overflow="ellipsis"),
    ]


def _warming_table(tasks: Sequence[WarmingTask], now_ns: int) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    for task in tasks:
        age = duration_text(max(0, now_ns - task.last_ns) / NS_PER_S)
        table.add_row(
            Text(f"{task.rule} {task.attempts} of {task.needed}", style="yellow"),
            Text(f"task {plain(task.task, _NAME_LENGTH_MAX)}"),
            Text(plain(task.agent, _NAME_LENGTH_MAX)),
            Text(f"{age} ago", style="dim"),
        )
    return table

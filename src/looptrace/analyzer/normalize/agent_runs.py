"""Runs of agents, as the agents' spans show them: who asked for each, a person or another agent.

A person's message is on the outermost span of a run, where the conventions put it. The spans of
models below often repeat it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from looptrace._core import is_brief
from looptrace.analyzer.fingerprint.rounds import comes_again
from looptrace.analyzer.normalize.span_tree import SpanTree
from looptrace.analyzer.schema.message import Message
from looptrace.analyzer.schema.span_fields import SpanFields

# The agent that asks for the next run of a chain: a program, which has no span.
NOBODY = ""


@dataclass(slots=True)
class AgentRuns:
    """The runs of a trace that somebody is known to have asked for."""

    handoffs: list[tuple[SpanFields, str]] = field(default_factory=list)  # with the asking agent
    # The spans with a person's message, by the id of the outermost span.
    requests: dict[str, SpanFields] = field(default_factory=dict)
    first: str = ""  # the outermost span of the first run

    def messages(self, models: Sequence[SpanFields], tree: SpanTree) -> list[SpanFields]:
        """Return the spans whose last message is a person's, each message once.

        The first is the message that a trace's first response answers. Later messages with the
        role of a user are mostly written by the framework; only those that follow a final answer
        count, and those that came before and are only heard. The task's messages show whether a
        person wrote a message. An agent's span counts where no model's span shows its message,
        because a model's ends sooner.
        """
        asked = {run.span_id for run, _ in self.handoffs}
        first: dict[str, str] = {}  # the first response within each outermost span
        found: list[SpanFields] = []
        told: set[str] = set()  # outermost spans whose message a response has
        said: set[str | None] = set()
        for i, model in enumerate(models):
            around = self._around(model, tree)
            outermost = around[-1] if around else ""
            is_first = first.setdefault(outermost, model.span_id) == model.span_id
            if _is_message(model, said, is_first=i == 0) and asked.isdisjoint(around):
                run = self.requests.get(outermost)
                if run is None or is_first or message_of(model) != message_of(run):
                    found.append(model)
                    told.add(outermost)
            said.add(model.text)
        opening = self.requests.get(self.first)
        if opening and found and found[0] is models[0] and found[0].start_ns < opening.end_ns:
            told.add(self.first)
        return found + [run for outermost, run in self.requests.items() if outermost not in told]

    def _around(self, model: SpanFields, tree: SpanTree) -> list[str]:
        """Return the ids of the agents and calls around a response, the nearest first."""
        if not (self.handoffs or self.requests):
            return []
        return [span.span_id for span in tree.ancestors(model) if span.kind]


def agent_runs_of(
    agents: Iterable[SpanFields], tree: SpanTree, acting: set[str], *, ended: bool
) -> AgentRuns:
    """Return who asked for the runs of these agents, spans of one trace.

    The agents that are `acting` speak or call. If the trace has not `ended`, a span may still come
    that is around one whose parent is unknown. Runs are taken by their ends, as they come.
    """
    handoffs: list[tuple[SpanFields, str]] = []
    outermost: list[SpanFields] = []
    within: dict[str, SpanFields] = {}  # the first run with a message within each of them
    firsts: dict[str, str] = {}  # the first run below each span that names an agent
    for run in sorted(agents, key=lambda span: (span.end_ns, -span.start_ns, span.span_id)):
        above = list(tree.ancestors(run))
        around = [span for span in above if span.kind]
        caller = next((span for span in above if span.agent), None)
        if caller and caller.agent != run.agent:
            is_frame = caller in around[-1:] and firsts.setdefault(caller.span_id, run.span_id)
            if caller.agent in acting or _asks(caller, run, is_frame=is_frame == run.span_id):
                handoffs.append((run, str(caller.agent)))
                continue
        if around:
            if _is_asked(run) and all(span.kind == "agent" for span in around):
                within.setdefault(around[-1].span_id, run)
        elif ended or (above or [run])[-1].parent_span_id is None:
            outermost.append(run)
    return _chain_of(outermost, within, acting, handoffs)


def _chain_of(
    outermost: Sequence[SpanFields],
    within: Mapping[str, SpanFields],
    acting: set[str],
    handoffs: list[tuple[SpanFields, str]],
) -> AgentRuns:
    """Return all runs, with those that no other is around, one after the other.

    An executor of a workflow shows who worked, and the agent within it what was asked.
    """
    runs = AgentRuns(handoffs, first=outermost[0].span_id if outermost else "")
    before: SpanFields | None = None
    for around in outermost:
        run = around if _is_asked(around) else within.get(around.span_id, around)
        if before is None or _talks_on(before, run):
            if _is_asked(run):
                runs.requests[around.span_id] = run
        elif _is_next(before, run) and acting.isdisjoint((before.agent, run.agent)):
            handoffs.append((run, NOBODY))
        before = run
    return runs


def message_of(span: SpanFields) -> str | None:
    """Return the last message that an agent or a model was given; None if it is unknown."""
    return span.given[-1].text if span.given else None


def follows_answer(given: tuple[Message, ...]) -> bool:
    """Return whether the last message came after an agent's final answer.

    An agent that calls tools by messages gives its final answer without a call. If no message has
    a call, the text after a response may be a result that the framework put into words.
    """
    before = next((m for m in reversed(given) if m.role != "user"), None)
    if before is None or before.role != "assistant" or before.calls or not before.text:
        return False
    return any(message.calls for message in given)


def _is_message(model: SpanFields, said: Collection[str | None], *, is_first: bool) -> bool:
    """Return whether a response answers a message and no text that was `said` before."""
    given = model.given or ()
    if not given or given[-1].role != "user":
        return False
    heard = comes_again(given) and is_brief(model.text)
    return is_first or (given[-1].text not in said and bool(heard or follows_answer(given)))


def _is_asked(run: SpanFields) -> bool:
    """Return whether the last message is from outside; one without any text is none."""
    last: Message | None = run.given[-1] if run.given else None
    return last is not None and last.role == "user" and last.text != ""


def _asks(caller: SpanFields, run: SpanFields, *, is_frame: bool) -> bool:
    """Return whether an agent that neither speaks nor calls asked for a run.

    Some frameworks call a whole run an agent; it is a frame, and the first run within has its
    message.
    """
    asked = message_of(run)
    if not asked:
        return False
    return not is_frame or message_of(caller) not in (None, "", asked)


def _talks_on(before: SpanFields, run: SpanFields) -> bool:
    """Return whether somebody speaks to an agent again, after its final answer.

    A program that lets an agent improve its answer shows it that answer.
    """
    is_same = before.agent == run.agent and before.end_ns <= run.start_ns and not before.calls
    return is_same and not (before.text and before.text in (message_of(run) or ""))


def _is_next(before: SpanFields, run: SpanFields) -> bool:
    """Return whether a program asked for a run after that of another agent.

    What it asked for need not be known.
    """
    is_other = before.agent and run.agent and before.agent != run.agent
    return bool(is_other and before.end_ns <= run.start_ns)

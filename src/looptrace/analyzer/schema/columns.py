"""The columns that detection adds to turns, each defined once.

The core adds them to *turns* (`TURN_SCHEMA`): *codes* of what rules compare and *marks*, and what
is *counted* from the start of a task. Rules see the columns that are fields of
`looptrace.rules.turns.Turns`; findings and gates show others. None of these columns is stored.
"""

import polars as pl

from looptrace.analyzer.schema.column import Column

_INT, _FLAG, _TEXT, _REAL = pl.Int64(), pl.Boolean(), pl.String(), pl.Float64()
_UNTOLD = "no turn before it says"

CODED = (
    Column("agent_code", _INT, "code", "the agent"),
    Column("name_code", _INT, "code", "the tool, the model, or what else a turn is named by"),
    Column("subtask_code", _INT, "code", "the declared task, where the counters are its root's"),
    Column("task_kind_code", _INT, "code", "the declared kind of the task"),
    Column("phase_code", _INT, "code", "the declared phase"),
    Column("iteration_code", _INT, "code", "the declared iteration"),
    Column("call_code", _INT, "code", "tool and arguments; news of a response; request; blockers"),
    Column("outcome_code", _INT, "code", "result or error; answer to a request; completed work"),
    Column("signature_code", _INT, "code", "what a call did or how it failed, in short"),
    Column("response_code", _INT, "code", "text and calls of a response"),
    Column("talks_on_code", _INT, "code", "the response gone on from, if neither asks for calls"),
    Column("error_code", _INT, "code", "message of an own failure, and what it looked for"),
    Column("mendable_code", _INT, "code", "message of a failure that is its own after an edit"),
    Column("check_code", _INT, "code", "a check that is not all well, with its answer"),
    Column("search_result_code", _INT, "code", "what a search found, and for what if it is short"),
    Column("look_chars", _INT, "characters", "length of what a call shows; 0 if it makes a change"),
    Column("status_code", _INT, "place", "status of an attempt, from 1 in `STATUSES`; else 0"),
    Column("chant_times", _INT, "times", "repetitions of a text's final phrase; 0 if it is short"),
    Column("chant_chars", _INT, "characters", "characters of these repetitions"),
    Column("external", _FLAG, "flag", "a failure with an external cause"),
    Column("own", _FLAG, "flag", "a failed call by the agent's own fault"),
    Column("changes", _FLAG, "flag", "a successful call whose name says that it changes something"),
    Column("works", _FLAG, "flag", "a successful call that does more than look, think or wait"),
    Column("shows", _FLAG, "flag", "a successful call that looks by its command, or thinks"),
    Column("only_reads", _FLAG, "flag", "a successful call that only reads one thing"),
    Column("unfinished", _FLAG, "flag", "a call whose result says that something goes on"),
    Column(
        "watches",
        _FLAG,
        "flag",
        "a successful call that waits, or shows running work",
    ),
    Column("searches", _FLAG, "flag", "a turn whose name is that of a search"),
    Column("pauses", _FLAG, "flag", "a call that does nothing but wait"),
    Column("brief", _FLAG, "flag", "a response of few words"),
    Column("silent", _FLAG, "flag", "a response without text and calls"),
    Column("only_calls", _FLAG, "flag", "a response without a text"),
    Column("cut", _INT, "place", "why a response was cut off, from 1 in `CUTS`; else 0"),
    Column("compacted_code", _INT, "code", "text and calls of a response after a compaction"),
    Column("untested", _FLAG, "flag", "its kind of task cannot be measured by tests"),
)

COUNTED = (
    Column("epoch", _INT, "resets", "resets of the task up to the turn"),
    Column("resets_seen", _INT, "resets", "those of them that are no completion and no run"),
    Column("speaker", _TEXT, "one of `Speaker`", "who wrote a message", "it is no message"),
    Column("reminded_code", _INT, "code", "the message that a brief response answers once more"),
    Column("speaker_code", _INT, "place", "the same, from 1 in `SPEAKERS`; 0 of other turns"),
    Column("reset_code", _INT, "place", "why counts begin anew here, from 1 in `RESETS`; else 0"),
    Column("reset", _TEXT, "one of `RESETS`", "why counts begin anew here", "they do not"),
    Column("phase_before", _TEXT, "phase", "the last known phase before it", _UNTOLD),
    Column("phase_before_code", _INT, "code", "the same"),
    Column("enters", _FLAG, "flag", "its phase is another than before it, or declared anew"),
    Column("visits", _INT, "turns", "turns of the epoch that entered its phase"),
    Column("transitions_seen", _INT, "turns", "those that came to it from `phase_before`"),
    Column("converging", _INT, "turns", "improvements of the metric that its phase converges on"),
    Column("waits_seen", _INT, "times", "times that the task stood still, or a call waited"),
    Column("polls", _FLAG, "flag", "a call that waits, or looks again after a wait"),
    Column("overdue_ns", _INT, "ns", "how long a wait has lasted beyond what is usual, at a poll"),
    Column("relapses", _FLAG, "flag", "a failed call that went well last, or one of many"),
    Column("shown_before", _FLAG, "flag", "a read of lines that were shown since a change"),
    Column(
        "new_thought", _FLAG, "flag", "a thought after another call, and not the last thought again"
    ),
    Column("changes_seen", _INT, "calls", "calls of the task that changed something, up to it"),
    Column("calls_seen", _INT, "calls", "calls that did not fail, wait or hand over, up to it"),
    Column("works_seen", _INT, "calls", "calls of the task that worked, up to it"),
    Column("improvements", _INT, "turns", "turns of the epoch that brought progress"),
    Column("twin", _FLAG, "flag", "a call of its step before it did the same"),
    Column("twin_signature", _FLAG, "flag", "one before it has its signature"),
    Column("twin_failure", _FLAG, "flag", "one before it failed with its message"),
    Column("twin_external", _FLAG, "flag", "it and one before it failed for an external cause"),
    Column("twin_search", _FLAG, "flag", "it and one before it are searches that found the same"),
    Column("busy_ns", _INT, "ns", "time of the epoch without idle time, up to this turn"),
    Column("steps", _INT, "turns", "turns of the epoch, up to this one"),
    Column("errors", _INT, "calls", "own failures in a row"),
    Column("errors_before", _INT, "calls", "those before the row began"),
    Column("turns_since_best", _INT, "turns", "comparable figures since the best so far"),
    Column("turns_since_best_before", _INT, "turns", "those up to the best so far"),
    Column("tries_since_progress", _INT, "turns", "attempts, figures, own failures since progress"),
    Column("tries_since_progress_before", _INT, "turns", "those up to the last progress"),
    Column("measured_code", _INT, "code", "the call that its figures are of"),
    Column("figures_compared", _INT, "turns", "figures of the epoch that others came before"),
    Column("input_tokens_sum", _INT, "tokens", "those of its agent in the task, up to it"),
    Column("input_tokens_total", _INT, "tokens", "those of the task, up to it"),
    Column("output_tokens_sum", _INT, "tokens", "those of its agent in the task, up to it"),
    Column("output_tokens_total", _INT, "tokens", "those of the task, up to it"),
    Column("tokens_spent", _INT, "tokens", "tokens of the epoch that came from no cache"),
    Column("tokens_spent_agent", _INT, "tokens", "those of its agent"),
    Column("tokens_spent_minute", _INT, "tokens", "those of the last minute"),
    Column("money_spent", _INT, "a billionth of the currency", "known cost of the epoch"),
    Column("money_spent_agent", _INT, "the same", "what its agent cost in the epoch"),
    Column("money_spent_minute", _INT, "the same", "what the last minute of the epoch cost"),
)

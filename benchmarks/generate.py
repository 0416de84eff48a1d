"""Synthetic turns from a seed: many sessions of agents at work, some of them stuck in a loop.

Nothing is drawn turn by turn. First comes the plan: the actor of each row, and the earlier row that
it repeats. Then come the texts, one column at a time, gathered from the repeated rows.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from looptrace.analyzer.fingerprint.fingerprints import add_fingerprints
from looptrace.analyzer.schema.turns import TURN_SCHEMA, numbered
from looptrace.rules.vocabulary import NS_PER_S

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Lengths of sessions are log-normal: half are shorter than the median, few are very long.
SESSION_TURNS_MEDIAN = 27
SESSION_TURNS_SIGMA = 0.95
SESSION_TURNS_MIN = 5
SESSION_TURNS_MAX = 400

# The number of agents of a session, and the share of its first agent among several.
AGENTS = ("lead", "coder", "reviewer")
AGENTS_SHARES = (0.7, 0.2, 0.1)
LEAD_SHARE = 0.6

# The probability of a person's message between two turns of a session.
MESSAGE_SHARE = 0.015
FAILURE_SHARE = 0.2
UNKNOWN_ARGUMENTS_SHARE = 0.03
UNKNOWN_RESULT_SHARE = 0.03
# The probability that an agent tries the same call once more, which is legitimate.
RETRY_SHARE = 0.04

# The share of sessions drawn for a loop. Some loops are too short, or a person interrupts them:
# about 12 % have a finding.
LOOP_SHARE = 0.14
LOOP_KINDS = ("call", "signature", "response", "cycle")
NO_LOOP = -1
# A planted loop needs three rounds; at most this many more are planted.
ROUNDS_MIN = 3
ROUNDS_MORE_MAX = 6
PERIOD_MIN = 2
PERIOD_MAX = 8

# The first session starts here (2026-01-01, in UTC), the others within a day.
EPOCH_S = 1_767_225_600
DAY_S = 86_400
# Turns follow one another in log-normal times; a turn itself takes most of its time.
GAP_MEDIAN_S = 3.0
GAP_SIGMA = 0.8
# Nobody waits here, because the plain loop knows no polling.
GAP_MAX_S = 20.0
BUSY_SHARE = 0.8

INPUT_TOKENS_MIN, INPUT_TOKENS_MAX = 200, 8_000
OUTPUT_TOKENS_MIN, OUTPUT_TOKENS_MAX = 20, 600
# Calls differ by a number below this one, so that two are hardly ever equal by chance.
NUMBER_MAX = 10**9
DURATION_MAX_MS = 10_000
ID_HEX_DIGITS = 16
TASK_DIGITS = 8

TOOLS = (
    "run_tests",
    "read_file",
    "edit_file",
    "write_file",
    "search_code",
    "run_command",
    "fetch_page",
    "list_folder",
    "query_orders",
    "render_page",
)
WORDS = (
    *("account", "basket", "cache", "config", "currency", "customer", "deadline", "email"),
    *("export", "filter", "gateway", "import", "invoice", "ledger", "login", "migration"),
    *("order", "payment", "queue", "refund", "report", "schema", "session", "stock"),
    *("tax", "template", "token", "upload", "voucher", "webhook", "worker", "zone"),
)
ERROR_TYPES = ("KeyError", "ValueError", "TimeoutError", "PermissionError", "AssertionError")
MODEL = "model-large"
SERVICE = "agents"


@dataclass(frozen=True, slots=True)
class Plan:
    """The actor of each row, and the row that it repeats; a new row repeats itself."""

    session: Ints
    kind: Ints  # index into ROW_KINDS
    agent: Ints  # index into AGENTS
    call_of: Ints  # row whose call this row repeats
    outcome_of: Ints
    response_of: Ints
    stuck: Mask  # rows whose failure a signature loop repeats


ROW_KINDS = ("user", "model", "tool")
DIGITS, LETTERS = "0123456789", "kmnprstvwz"
USER, MODEL_TURN, TOOL = range(len(ROW_KINDS))


def turns(count: int, seed: int) -> pl.DataFrame:
    """Return `count` turns (`TURN_SCHEMA`) in the form for analysis: fingerprinted and numbered."""
    return numbered(add_fingerprints(written(count, seed)))


def written(count: int, seed: int) -> pl.DataFrame:
    """Return `count` turns (`TURN_SCHEMA`) in the form from spans, without fingerprints."""
    rng = np.random.default_rng(seed)
    drawn = rng.lognormal(np.log(SESSION_TURNS_MEDIAN), SESSION_TURNS_SIGMA, count)
    lengths = np.clip(drawn, SESSION_TURNS_MIN, SESSION_TURNS_MAX).astype(np.int64)
    ends = np.minimum(np.cumsum(lengths), count)
    lengths = np.diff(ends, prepend=0)
    return sessions(lengths[lengths > 0], rng)


def sessions(lengths: Ints, rng: np.random.Generator) -> pl.DataFrame:
    """Return turns without fingerprints, of one session for each length."""
    plan = _planned(lengths, rng)
    table = pl.DataFrame(
        {
            "row": np.arange(len(plan.kind)),
            "number": plan.session,
            "agent_number": plan.agent,
            "kind": pl.Series(np.array(ROW_KINDS)[plan.kind]).cast(TURN_SCHEMA["kind"]),
        }
    )
    table = table.with_columns(*_times(plan, rng)).with_columns(_names())
    table = _with_calls(table, plan, rng)
    table = _with_outcomes(table, plan, rng)
    table = _with_responses(table, plan, rng)
    blank = [
        pl.lit(None, dtype).alias(name)
        for name, dtype in TURN_SCHEMA.items()
        if name not in table.columns
    ]
    return table.with_columns(blank).select(TURN_SCHEMA.names()).cast(TURN_SCHEMA)


def _planned(lengths: Ints, rng: np.random.Generator) -> Plan:
    """Draw the actors, and the rows that repeat others."""
    count = int(lengths.sum())
    session = np.repeat(np.arange(len(lengths)), lengths)
    begins = np.cumsum(lengths) - lengths
    row = np.arange(count)
    speaks = rng.random(count) < MESSAGE_SHARE
    speaks[begins] = True
    since = row - np.maximum.accumulate(np.where(speaks, row, 0)) - 1
    kind = np.where(speaks, USER, np.where(since % 2 == 0, MODEL_TURN, TOOL))
    agents = rng.choice(len(AGENTS), len(lengths), p=AGENTS_SHARES) + 1
    others = rng.random(count) >= LEAD_SHARE
    acts = np.where(others, rng.integers(0, len(AGENTS), count) % agents[session], 0)
    # A tool is called by the agent whose model just spoke.
    agent = np.where(kind == TOOL, acts[np.maximum(row - 1, 0)], acts)
    lanes = _Lanes(session, kind, agent)
    calls, signatures, responses = lanes.planted(len(lengths), rng)
    stuck = _repeated(signatures)
    in_loop = (calls != row) | (signatures != row) | _repeated(calls) | stuck
    again = (rng.random(count) < RETRY_SHARE) & (kind == TOOL) & ~in_loop
    calls = np.where(again, calls[lanes.before()], calls)
    outcomes = np.where(signatures == row, calls, signatures)
    return Plan(session, kind, agent, calls, outcomes, responses, stuck)


def _repeated(source: Ints) -> Mask:
    """Return the mask of the rows that others repeat."""
    result = np.zeros(len(source), dtype=np.bool_)
    result[source[source != np.arange(len(source))]] = True
    return result


class _Lanes:
    """Rows sorted by session, kind and agent, so that turns that rules compare are adjacent."""

    def __init__(self, session: Ints, kind: Ints, agent: Ints) -> None:
        self.order = np.lexsort((agent, kind, session))
        self.session, self.kind, self.agent = (c[self.order] for c in (session, kind, agent))
        starts = np.ones(len(self.order), dtype=np.bool_)
        for column in (self.session, self.kind, self.agent):
            starts[1:] &= column[1:] == column[:-1]
        starts[1:] = ~starts[1:]
        self.first = np.flatnonzero(starts)
        self.lane = np.cumsum(starts) - 1
        self.turns = np.diff(self.first, append=len(self.order))
        self.position = np.arange(len(self.order)) - self.first[self.lane]

    def before(self) -> Ints:
        """Return, for each row, the one before it in its lane; for the first, the row itself."""
        return self._by_row(np.arange(len(self.order)) - (self.position > 0))

    def planted(self, count: int, rng: np.random.Generator) -> tuple[Ints, Ints, Ints]:
        """Draw loops for some of the sessions: the rows whose call, signature, response repeat."""
        drawn = rng.choice(len(LOOP_KINDS), count)
        drawn[rng.random(count) >= LOOP_SHARE] = NO_LOOP
        loop, kind = drawn[self.session[self.first]], self.kind[self.first]
        loop[self.agent[self.first] != 0] = NO_LOOP
        call, signature, response, cycle = range(len(LOOP_KINDS))
        period = np.where(loop == cycle, rng.integers(PERIOD_MIN, PERIOD_MAX + 1, len(loop)), 1)
        sources = self._sources(period, rng)
        tool, model = kind == TOOL, kind == MODEL_TURN
        chosen = (
            tool & ((loop == call) | (loop == cycle)),
            tool & (loop == signature),
            model & (loop == response),
        )
        calls, signatures, responses = (
            self._by_row(np.where(lanes[self.lane], sources, np.arange(len(sources))))
            for lanes in chosen
        )
        return calls, signatures, responses

    def _sources(self, period: Ints, rng: np.random.Generator) -> Ints:
        """Plant a loop in every lane: the place whose turn each place repeats."""
        period = np.minimum(period, np.maximum(self.turns // ROUNDS_MIN, 1))
        more = rng.integers(0, ROUNDS_MORE_MAX * period + 1)
        length = np.minimum(ROUNDS_MIN * period + more, self.turns)
        start = (rng.random(len(period)) * (self.turns - length + 1)).astype(np.int64)
        inside = self.position - start[self.lane]
        begin = self.first[self.lane] + start[self.lane]
        return np.where(
            (inside >= 0) & (inside < length[self.lane]),
            begin + inside % period[self.lane],
            np.arange(len(self.order)),
        )

    def _by_row(self, positions: Ints) -> Ints:
        result = np.empty_like(positions)
        result[self.order] = self.order[positions]
        return result


def _names() -> list[pl.Expr]:
    """Name sessions, traces, spans and agents; each session is one task and one trace."""
    task = pl.format("session-{}", pl.col("number").cast(pl.String).str.zfill(TASK_DIGITS))
    names = pl.lit(pl.Series(AGENTS))
    spoken = pl.col("kind") == "user"
    return [
        task.alias("task"),
        task.alias("session"),
        pl.col("number").cast(pl.String).str.zfill(2 * ID_HEX_DIGITS).alias("trace_id"),
        pl.col("row").cast(pl.String).str.zfill(ID_HEX_DIGITS).alias("span_id"),
        pl.when(spoken).then(pl.lit("")).otherwise(names.gather("agent_number")).alias("agent"),
        pl.lit(SERVICE).alias("service"),
    ]


def _times(plan: Plan, rng: np.random.Generator) -> list[pl.Series]:
    """Draw the start and end of turns; those of a session follow one another."""
    count = len(plan.session)
    gaps_s = rng.lognormal(np.log(GAP_MEDIAN_S), GAP_SIGMA, count)
    gaps_ns = (np.minimum(gaps_s, GAP_MAX_S) * NS_PER_S).astype(np.int64)
    first = np.flatnonzero(np.diff(plan.session, prepend=-1))
    passed = np.cumsum(gaps_ns)
    passed -= passed[first][plan.session]
    opened = rng.integers(0, DAY_S, len(first)) + EPOCH_S
    end_ns = opened[plan.session] * NS_PER_S + passed
    took_ns = np.where(plan.kind == USER, 0, gaps_ns * BUSY_SHARE).astype(np.int64)
    return [pl.Series("start_ns", end_ns - took_ns), pl.Series("end_ns", end_ns)]


def _with_calls(table: pl.DataFrame, plan: Plan, rng: np.random.Generator) -> pl.DataFrame:
    """Write the arguments of tool calls."""
    count = table.height
    name = _drawn(TOOLS, count, rng)
    numbers = pl.Series(rng.integers(0, NUMBER_MAX, count)).cast(pl.String)
    words = _drawn(WORDS, count, rng) + "_" + _drawn(WORDS, count, rng)
    arguments = '{"path":"src/' + words + '.py","ticket":' + numbers + "}"
    unknown = pl.Series(rng.random(count) < UNKNOWN_ARGUMENTS_SHARE)
    arguments = arguments.set(unknown, None)
    tool = pl.col("kind") == "tool"
    source = pl.Series(plan.call_of)
    # A loop of failures is one of the same tool, as a person would say.
    tools = pl.Series(plan.outcome_of)
    return table.with_columns(
        name=pl.when(tool)
        .then(name.gather(tools))
        .when(pl.col("kind") == "model")
        .then(pl.lit(MODEL)),
        arguments=pl.when(tool).then(arguments.gather(source)),
    )


def _with_outcomes(table: pl.DataFrame, plan: Plan, rng: np.random.Generator) -> pl.DataFrame:
    """Write the results of tools; the status of the span marks failures."""
    count = table.height
    numbers = pl.Series(rng.integers(0, NUMBER_MAX, count)).cast(pl.String)
    found = _drawn(WORDS, count, rng) + " " + _drawn(WORDS, count, rng) + " " + numbers
    kinds = _drawn(ERROR_TYPES, count, rng)
    source = pl.Series(plan.outcome_of)
    failed = pl.Series((rng.random(count) < FAILURE_SHARE) | plan.stuck).gather(source)
    unknown = pl.Series((rng.random(count) < UNKNOWN_RESULT_SHARE) & ~plan.stuck).gather(source)
    told = found.gather(source)
    # The result contains the duration of the call, which carries no information.
    took_ms = pl.Series(rng.integers(1, DURATION_MAX_MS, count)).cast(pl.String)
    result = "Found " + told + " after " + took_ms + " ms."
    error = "cannot handle " + told + ", gave up after " + took_ms + " ms"
    known = (pl.col("kind") == "tool") & ~unknown
    return table.with_columns(
        failed=pl.when(pl.col("kind") == "tool").then(failed.set(~failed, None)),
        result=pl.when(known & ~failed).then(result),
        error=pl.when(known & failed).then(error),
        error_type=pl.when(known & failed).then(kinds.gather(source)),
    )


def _with_responses(table: pl.DataFrame, plan: Plan, rng: np.random.Generator) -> pl.DataFrame:
    """Write the texts of people and models, and the input of each response."""
    count = table.height
    numbers = pl.Series(rng.integers(0, NUMBER_MAX, count)).cast(pl.String)
    source = pl.Series(plan.response_of)
    said = "The " + _drawn(WORDS, count, rng) + " needs " + _drawn(WORDS, count, rng) + " "
    said = (said + numbers).gather(source)
    # A person says each thing once: the same words again, or other figures in them, would be an
    # orchestrator's.
    word = pl.col("row").cast(pl.String).str.replace_many(list(DIGITS), list(LETTERS))
    person = pl.col("kind") == "user"
    worded = pl.when(person).then(pl.format("{} {}", said, word)).otherwise(said)
    said = table.select(worded).to_series()
    before = pl.coalesce("error", "result").shift(1).over("number", "agent")
    # After a person's message, that message is the news.
    news = pl.when(pl.col("kind").shift(1) == "user").then(said.shift(1)).otherwise(before)
    table = table.with_columns(news=news)
    model = pl.col("kind") == "model"
    tokens = {
        "input_tokens": rng.integers(INPUT_TOKENS_MIN, INPUT_TOKENS_MAX, count),
        "output_tokens": rng.integers(OUTPUT_TOKENS_MIN, OUTPUT_TOKENS_MAX, count),
    }
    return table.with_columns(
        text=pl.when(pl.col("kind") != "tool").then(said),
        response=pl.when(model).then(said),
        arguments=pl.when(model).then(pl.col("news").gather(source)).otherwise("arguments"),
        **{name: pl.when(model).then(pl.Series(values)) for name, values in tokens.items()},
    )


def _drawn(texts: tuple[str, ...], count: int, rng: np.random.Generator) -> pl.Series:
    return pl.Series(texts).gather(rng.integers(0, len(texts), count))

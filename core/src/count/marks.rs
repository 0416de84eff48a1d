//! The codes and marks of a turn, which follow from its fields alone.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use regex::Regex;

use super::chants::{CHANT_BYTES_MIN, chant_of};
use super::checks::Checker;
use super::codes::{UNKNOWN, code, code_of, pair};
use super::how::{Counting, Metric};
use super::looks::{UNSHOWN, answers, is_one_thing, mark_look};
use super::row::{CUTS, KINDS, Row, STATUSES, place};
use super::search::{Asked, asks_help, found, is_command, is_common};
use super::turn::{Price, Turn};
use super::undone::{edit_codes, undoes, undoes_by_command};
use crate::fields::said::SILENCE;
use crate::patterns::{Pattern, pattern};
use crate::same::kinds::{EXTERNAL, kind_in};
use crate::same::made::{makes, tells_figures};
use crate::same::tools;
use crate::same::waits;
use crate::tables::{FAILURES, MARKS, ROUNDS};

static REPORTS: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["reports"]));
static ASSESSES: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["assesses"]));
static SHOWS_STATE: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["shows_state"]));
static OWN_NOTES: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["own_notes"]));
static MOVES: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["moves"]));
static MOVE_ARGUMENTS: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["move_arguments"]));
static MOVED: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["moved"]));
static EXISTS: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&FAILURES["exists"]));
static OF_CALL: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&FAILURES["of_call"]));
static GUESSES: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&FAILURES["guesses"]));
static DRAINED: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["drained"]));
static WAYS: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["ways"]));
static PLANS: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["plans"]));
static ASKS: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["asks"]));
static CHANCE: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["chance"]));
static NARROWS: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["narrows"]));
static TOO_MUCH: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&FAILURES["too_much"]));
static GIVEN: LazyLock<Regex> = LazyLock::new(|| pattern(r"[\w.-]{3,}"));
static STATE_COMMANDS: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["state_commands"]));
static FILE_ADDRESSES: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["file_addresses"]));
static UNSEEN: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["unseen"]));
static SLEEPS: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["sleeps"]));
static LOG_FILE: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["log_file"]));
static OWN_SERVER: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["own_server"]));
static BRIEF: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["brief"]));
static REJECTS: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&ROUNDS["rejects"]));
static COURTESY: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["courtesy"]));
static UNTESTED: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["untested"]));

// A limit of fewer tokens is meant: for a yes, a no, or the name of a class.
const CUT_TOKENS_MIN: i64 = 64;
// The kind of a wait that fails by it, which has only not ended yet.
const RAN_OUT: &str = "timeout";
// The kind of a look at something that may come.
const MISSING: &str = "not_found";
// The kind of a failure of which a framework hides what went wrong.
const UNTOLD: &str = "untold";
// The agent may mend these by its own edits: a login, a missing module.
const MENDABLE: [&str; 2] = ["authentication", "dependency"];
// A longer text says more.
const COURTESY_BYTES_MAX: usize = 500;
// The message that all courtesies are.
const COURTESIES: &str = "courtesy";
// The arguments of a call without any.
const EMPTY: &str = "{}";
// There are few tools, and what their names say is kept.
const NAMES_KEPT_MAX: usize = 1_000;

/// What the name of a tool says about it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tool {
    /// It changes something.
    pub changes: bool,
    /// It searches, and changes nothing.
    pub searches: bool,
    /// It only looks at something.
    pub reads: bool,
    /// It does nothing but wait.
    pub pauses: bool,
    /// It looks again at something that goes on.
    pub watches: bool,
    /// It moves on from where its last call ended.
    pub moves: bool,
    /// It leads to what is new, and shows nothing new itself.
    pub leads: bool,
    /// It shows the state of one thing, whatever it is given.
    pub shows_state: bool,
    /// It says of each thing in which class it is.
    pub assesses: bool,
    /// Its result is a matter of chance.
    pub chance: bool,
    /// It shows what the agent itself wrote down.
    pub notes: bool,
    /// It writes a plan as a whole.
    pub plans: bool,
    /// It puts back what was changed.
    pub undoes: bool,
    /// A person answers it.
    pub asks: bool,
    /// How its answers are checked; a tool that changes something checks nothing.
    pub checker: Checker,
}

impl Tool {
    fn of(name: &str) -> Self {
        let changes = tools::changes(name);
        Self {
            changes,
            searches: !changes && tools::searches(name),
            reads: !changes && tools::reads(name),
            pauses: waits::pauses(name),
            watches: !changes && waits::watches(name),
            moves: MOVES.is_match(name),
            leads: MOVES.is_match(name) || tools::hands_over(name),
            chance: CHANCE.is_match(name),
            notes: OWN_NOTES.is_match(name),
            plans: PLANS.is_match(name),
            undoes: undoes(name),
            asks: ASKS.is_match(name),
            shows_state: SHOWS_STATE.is_match(name),
            assesses: ASSESSES.is_match(name),
            checker: if changes {
                Checker::default()
            } else {
                Checker::of(name)
            },
        }
    }
}

thread_local! {
    static TOOLS: RefCell<HashMap<String, Tool>> = RefCell::default();
}

/// What the name of a tool says about it; nothing without a name.
#[must_use]
pub fn tool(name: Option<&str>) -> Tool {
    let Some(name) = name else {
        return Tool::default();
    };
    TOOLS.with_borrow_mut(|known| {
        if let Some(tool) = known.get(name) {
            return *tool;
        }
        if known.len() >= NAMES_KEPT_MAX {
            known.clear();
        }
        *known
            .entry(name.to_owned())
            .or_insert_with(|| Tool::of(name))
    })
}

/// Whether an answer to a message is a sentence or two without code, or another one to a program
/// that could not use the last one.
#[must_use]
pub fn is_brief(answer: &str, message: Option<&str>) -> bool {
    BRIEF.is_match(answer) || message.is_some_and(|text| REJECTS.is_match(&waits::ends_of(text)))
}

/// Whether a text is thanks, a farewell or an offer to wait, and nothing else.
fn is_courtesy(text: &str) -> bool {
    text.len() <= COURTESY_BYTES_MAX && COURTESY.is_match(text)
}

/// What counting needs of a turn beside its columns.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Marked {
    pub row: Row,
    pub start_ns: i64,
    pub order_ns: i64,
    pub phase_start_ns: i64,
    pub markers: bool,
    pub input_tokens: i64,
    pub output_tokens: i64,
    /// What the turn spends of a budget.
    pub tokens_spent: i64,
    /// What it costs, in billionths of the currency.
    pub money_spent: i64,
    pub has_id: bool,
    pub trace: i64,
    pub step: i64,
    /// A message that came before in its conversation.
    pub repeated: i64,
    /// What a search with a short answer asked for.
    pub asked: Option<Box<Asked>>,
    pub phase: Option<Arc<str>>,
    /// The metric of its phase, and the author's own figure.
    pub metric: Option<Arc<Metric>>,
    pub own_figure: Option<f64>,
}

/// Code and mark a turn.
#[must_use]
pub fn mark(turn: &Turn, how: &Counting) -> Marked {
    let mut row = coded(turn);
    let tool = tool(turn.name);
    row.searches = tool.searches;
    mark_response(&mut row, turn);
    if row.is("tool") {
        mark_call(&mut row, turn, tool);
    } else {
        mark_failure(&mut row, turn, tool.searches || tool.reads);
    }
    let trace = code_of(turn.trace_id);
    let (metric, own_figure) = how.metric_of(row.phase, turn);
    Marked {
        start_ns: turn.start_ns,
        order_ns: turn.order_ns,
        phase_start_ns: turn.phase_start_ns,
        markers: turn.markers > 0 || turn.result.is_some_and(|text| NARROWS.is_match(text)),
        input_tokens: turn.input_tokens,
        output_tokens: turn.output_tokens,
        tokens_spent: tokens_spent(turn),
        money_spent: money_spent(turn),
        has_id: turn.call_id.is_some(),
        trace,
        step: pair(trace, code_of(turn.step)),
        repeated: if row.is("user") {
            code_of(turn.arguments)
        } else {
            UNKNOWN
        },
        asked: (!tool.plans && is_common(turn, tool, row.search_result))
            .then(|| Box::new(Asked::of(turn, tool))),
        phase: turn.phase.map(Arc::from),
        metric,
        own_figure,
        row,
    }
}

/// The tokens that a turn spends: all but those read from a cache, which cost a tenth or less.
fn tokens_spent(turn: &Turn) -> i64 {
    let read = turn.input_tokens.saturating_sub(turn.cached_tokens).max(0);
    read.saturating_add(turn.output_tokens.max(0))
}

/// What a turn costs, in billionths of the currency; 0 where no price is known.
fn money_spent(turn: &Turn) -> i64 {
    let Some(Price(prices)) = turn.price else {
        return 0;
    };
    let (cached, written) = (turn.cached_tokens.max(0), turn.cache_write_tokens.max(0));
    let other = turn
        .input_tokens
        .saturating_sub(cached.saturating_add(written));
    let wrote = turn.output_tokens.max(0);
    let thought = turn.reasoning_tokens.clamp(0, wrote);
    let tokens = [other.max(0), wrote - thought, cached, written, thought];
    let each = tokens.iter().zip(prices);
    // The price of a million tokens, times a billionth.
    let billionths: f64 = each
        .map(|(tokens, price)| *tokens as f64 * price * 1e3)
        .sum();
    billionths.round() as i64
}

impl Row {
    /// Whether the turn is of a kind.
    #[must_use]
    pub fn is(&self, kind: &str) -> bool {
        KINDS[self.kind as usize] == kind
    }
}

fn coded(turn: &Turn) -> Row {
    Row {
        kind: (place(&KINDS, turn.kind) - 1).max(0),
        agent: code_of(turn.agent),
        name: code_of(turn.name),
        subtask: code_of(turn.subtask),
        task_kind: code_of(turn.task_kind),
        phase: code_of(turn.phase),
        iteration: code_of(turn.iteration),
        call: code_of(turn.call),
        outcome: code_of(turn.outcome),
        signature: code_of(turn.signature),
        response: code_of(turn.response),
        talks_on: code_of(turn.talks_on),
        end_ns: turn.end_ns,
        failed: turn.failed,
        external: turn.error_kind.is_some_and(|kind| EXTERNAL.contains(&kind)),
        untested: turn.task_kind.is_some_and(|kind| UNTESTED.is_match(kind)),
        tests_failed: turn.tests_failed,
        tests_total: turn.tests_total,
        coverage: turn.coverage,
        ..Row::default()
    }
}

/// Set the marks of responses and attempts.
fn mark_response(row: &mut Row, turn: &Turn) {
    row.silent = turn.response == Some(SILENCE);
    if !(1..CUT_TOKENS_MIN).contains(&turn.output_tokens) {
        row.cut = turn.finish_reason.map_or(0, |reason| place(&CUTS, reason));
    }
    if turn.compacted {
        row.compacted = row.response;
    }
    if row.is("attempt") || row.is("switch") {
        row.status = turn.name.map_or(0, |name| place(&STATUSES, name));
    }
    if !row.is("model") {
        return;
    }
    row.unheard = turn.arguments.is_some_and(waits::is_silence);
    let Some(text) = turn.text else { return };
    let mut signs = text
        .chars()
        .filter(|sign| sign.is_alphanumeric())
        .peekable();
    // Dots and rulers say nothing.
    row.only_calls = signs.peek().is_none();
    if !row.only_calls && signs.all(char::is_numeric) {
        // Who counts does not talk.
        row.talks_on = UNKNOWN;
    }
    row.brief = is_brief(text, turn.arguments);
    if is_courtesy(text) && turn.arguments.is_some_and(is_courtesy) {
        row.reminded = code(COURTESIES);
    }
    if text.len() >= CHANT_BYTES_MIN {
        (row.chant_times, row.chant_chars) = chant_of(text);
    }
}

/// Set the marks of a call.
fn mark_call(row: &mut Row, turn: &Turn, tool: Tool) {
    let arguments = turn.arguments.unwrap_or_default();
    let shown = turn.error.or(turn.result);
    row.pauses = tool.pauses || SLEEPS.is_match(arguments);
    let waits = tool.watches || (!tool.changes && waits::waits(arguments));
    let watches = waits && !row.pauses;
    let is_held = || shown.is_some_and(waits::is_locked);
    if !row.failed || watches || row.pauses || STATE_COMMANDS.is_match(arguments) || is_held() {
        // A wait that timed out may exit with an error, and so may a state that is not final.
        let says_nothing = shown.is_some_and(|text| text.trim().is_empty());
        let ran_out = (turn.error_kind == Some(RAN_OUT) || (row.failed && says_nothing))
            && (watches || row.pauses);
        row.unfinished = ran_out || shown.is_some_and(|text| goes_on(text, arguments, tool));
    }
    let failed = row.failed && !row.unfinished;
    row.well = !row.unfinished && shown.is_some_and(waits::is_well);
    let fine = !failed;
    let helps = failed && asks_help(arguments);
    row.watches = watches && fine;
    row.one_thing = is_one_thing(arguments) && !(tool.changes || tool.checker.checks);
    row.changes = fine && (tool.changes || tools::installs(arguments));
    row.asks = tool.asks;
    row.undoes = tool.undoes || undoes_by_command(arguments);
    if tool.changes
        && let Some(codes) = edit_codes(arguments)
    {
        (row.edit, row.edit_back) = codes;
    }
    row.only_reads = fine && tool.reads;
    let looks_only = || tool.reads || tools::reads_by_command(arguments);
    row.missing = failed && turn.error_kind == Some(MISSING) && looks_only();
    let looks = tool.searches || tool.reads || watches || row.unfinished || helps;
    row.works = fine && !(looks || row.pauses);
    let gone = failed && is_gone(turn, arguments);
    let gone_alone = gone && !shown.is_some_and(|text| names_given(arguments, text));
    // A number in the arguments may be what was too much.
    let has_number = arguments.contains(|sign: char| sign.is_ascii_digit());
    let is_too_much = |text: &str| TOO_MUCH.is_match(&waits::ends_of(text));
    let own_limit = failed && has_number && shown.is_some_and(is_too_much);
    let of_one = failed && shown.is_some_and(|text| OF_CALL.is_match(&waits::ends_of(text)));
    let lost = failed && turn.error_kind == Some(MISSING) && FILE_ADDRESSES.is_match(arguments);
    let has_answer = failed && !row.external && shown.is_some_and(|text| answers(turn, tool, text));
    let of_call = gone_alone || own_limit || of_one || lost || has_answer;
    if helps || of_call {
        if row.call != UNKNOWN && row.signature != UNKNOWN {
            row.signature = pair(row.signature, row.call);
        }
        if of_call && row.call != UNKNOWN {
            row.outcome = pair(row.outcome, row.call);
        }
    } else if failed && let Some(way) = WAYS.find_at(arguments, 0) {
        let way = code(&arguments[way]);
        (row.signature, row.outcome) = (pair(row.signature, way), pair(row.outcome, way));
    }
    let guesses = |text: &str| guesses(arguments, text);
    row.guesses = failed && !of_call && is_command(turn, tool) && shown.is_some_and(guesses);
    let is_hidden = |text: &str| {
        moves_on(arguments, text, tool) || UNSEEN.is_match(text) || DRAINED.is_match(text)
    };
    if fine && (tool.chance || is_hidden(shown.unwrap_or_default())) {
        // Where it has got to, or what it saw, is not told.
        (row.outcome, row.signature) = (UNKNOWN, UNKNOWN);
    }
    mark_failure(row, turn, looks || of_call);
    let is_own = failed && !row.external && !gone && !has_answer;
    row.own = is_own && !REPORTS.is_match(arguments);
    // A look that fails, such as at a page that is not there, tries nothing that gets further.
    let only_looks = tool.reads && (row.missing || !tool.checker.checks);
    row.tries = row.own && !(only_looks || watches || helps || own_limit || lost);
    if is_mendable(turn) {
        row.mendable = row.outcome;
    }
    let still = row.pauses || watches || row.unfinished;
    if tool.checker.checks && fine && !still && UNKNOWN != pair(row.call, row.outcome) {
        let result = turn.result.unwrap_or_default();
        if tool.checker.falls_short(arguments, result) {
            row.check = pair(row.call, row.outcome);
        }
    }
    row.search_result = found(turn, tool, row);
    if !row.failed && tool.plans {
        row.search_result = pair(row.name, row.outcome);
    }
    let may_go_on = waits || row.pauses || turn.name.is_some_and(tells_figures);
    if shown.is_none() && fine && !may_go_on && is_look_back(arguments, tool) {
        row.look_chars = UNSHOWN;
    }
    if !tool.changes
        && let Some(text) = shown
        && !makes(turn.name, turn.arguments)
    {
        mark_look(row, arguments, text, tool);
    }
}

/// Set the code of an own failure.
///
/// "404 Not Found" for one page after another is a search, so the error of a look has its call; and
/// a question that timed out may be answered at the second try.
fn mark_failure(row: &mut Row, turn: &Turn, looks: bool) {
    let told = turn.error_kind.is_some_and(|kind| kind != UNTOLD);
    if !row.failed || row.unfinished || row.external || !told {
        return;
    }
    let asks = (looks || turn.error_kind == Some(RAN_OUT)) && row.call != UNKNOWN;
    row.error = if asks {
        pair(row.outcome, row.call)
    } else {
        row.outcome
    };
}

/// Whether a failure names what its call was given, so that it is one of that by its own words.
fn names_given(arguments: &str, error: &str) -> bool {
    let is_key = |end: usize| arguments[end..].starts_with("\":");
    let mut words = GIVEN
        .find_iter(arguments)
        .filter(|word| !is_key(word.end()));
    words.any(|word| error.contains(word.as_str()))
}

/// Whether a failure quotes a name or a part of what its call was given, which could be any other.
fn guesses(arguments: &str, error: &str) -> bool {
    GUESSES.is_match(&waits::ends_of(error)) && names_given(arguments, error)
}

/// Whether a call removes what is gone already, or makes what is there already.
fn is_gone(turn: &Turn, arguments: &str) -> bool {
    let says = || kind_in(turn.result.unwrap_or_default()) == Some(MISSING);
    let exists = |text: Option<&str>| text.is_some_and(|text| EXISTS.is_match(text));
    (tools::removes(turn.name, arguments) && (turn.error_kind == Some(MISSING) || says()))
        || ((exists(turn.error) || exists(turn.result)) && makes(turn.name, turn.arguments))
}

/// Whether what a call shows says that something goes on.
///
/// Looks at files and at the agent's own notes are left out: what they say goes on elsewhere.
fn goes_on(shown: &str, arguments: &str, tool: Tool) -> bool {
    let is_file = tools::looks_at_file(arguments) && !LOG_FILE.is_match(arguments);
    !is_file && !tool.notes && waits::is_unfinished(shown)
}

/// Whether a call moves on, such as by scrolling, and does not show where it is now.
fn moves_on(arguments: &str, shown: &str, tool: Tool) -> bool {
    (tool.moves || MOVE_ARGUMENTS.is_match(arguments)) && MOVED.is_match(shown)
}

/// Whether a call would be the same again without its result: it names what it is for, and moves
/// nothing on.
fn is_look_back(arguments: &str, tool: Tool) -> bool {
    let moves = tool.moves || tool.chance || tool.asks || tool.changes;
    !moves && arguments.len() > EMPTY.len() && !MOVE_ARGUMENTS.is_match(arguments)
}

fn is_mendable(turn: &Turn) -> bool {
    match turn.error_kind {
        Some("network") => turn.error.is_some_and(|error| OWN_SERVER.is_match(error)),
        Some(kind) => MENDABLE.contains(&kind),
        None => false,
    }
}

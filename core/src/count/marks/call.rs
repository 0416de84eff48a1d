//! The marks of calls.

use super::apologies::declines;
use super::asked::says_again;
use super::failure::{guesses, is_gone, is_mendable, mark_failure, names_given};
use super::faults::{fault_of, has_no_effect, lasts, thing_of, turned_down};
use super::looks::{UNSHOWN, answers, is_one_thing, mark_look};
use super::notes::notes_in_file;
use super::search::{asks_help, found, is_empty, is_empty_page, only_looks, says_nothing};
use super::states::{done_steps, state_of, tells_plan};
use super::tool::{DEPLOYS, SETTLES, Tool};
use super::{MISSING, RAN_OUT};
use crate::count::codes::{UNKNOWN, code, code_of, pair};
use crate::count::row::Row;
use crate::count::turn::Turn;
use crate::count::undone::{edit_codes, goes_by_command, undoes_by_command};
use crate::patterns::rows;
use crate::same::errors::is_vague;
use crate::same::frames::framed;
use crate::same::made::makes;
use crate::same::pages::leads_on;
use crate::same::signature::changed_file;
use crate::same::text::{head, is_longer};
use crate::same::{tools, waits};
use crate::tables::{FAILURES, MARKS};

rows! {
    REPORTS: Pattern = MARKS["reports"];
    MOVE_ARGUMENTS: Pattern = MARKS["move_arguments"];
    MOVED: Pattern = MARKS["moved"];
    OF_CALL: Pattern = FAILURES["of_call"];
    OF_EDIT: Pattern = FAILURES["of_edit"];
    OF_FILE: Pattern = FAILURES["of_file"];
    WRITING_COMMANDS: Pattern = MARKS["writing_commands"];
    EDIT_COMMANDS: Pattern = MARKS["edit_commands"];
    DATA_FILE: Pattern = MARKS["data_file"];
    UNDECIDED: Pattern = MARKS["undecided"];
    DRAINED: Pattern = MARKS["drained"];
    WORDED: Pattern = MARKS["worded_keys"];
    WAYS: Pattern = MARKS["ways"];
    OF_SERVER: Pattern = FAILURES["of_server"];
    TOO_MUCH: Pattern = FAILURES["too_much"];
    STATE_COMMANDS: Pattern = MARKS["state_commands"];
    FILE_ADDRESSES: Pattern = MARKS["file_addresses"];
    UNSEEN: Pattern = MARKS["unseen"];
    LISTS: Pattern = MARKS["lists"];
    SLEEPS: Pattern = MARKS["sleeps"];
    ACTS_DONE: Forms = MARKS["acts_done"];
    LOG_FILE: Pattern = MARKS["log_file"];
    NOT_THERE: Pattern = MARKS["not_there"];
    GOOD_NEWS: Pattern = MARKS["good_news"];
    TEST_FILE: Pattern = MARKS["test_file"];
}

// The characters of what an act shows that only says that it was done.
const DONE: i64 = -3;
// A command begins within so much of the arguments of its call.
const COMMAND_CHARS: usize = 500;
// The kind of a failure that may be mended by other rights.
const REFUSED: &str = "permission";
// The kind of a failure of a server.
const NETWORK: &str = "network";
// Stands for the outcome of a question to which a person had no answer.
const NO_ANSWER: i64 = 1;
// Stands for that of a plan that is only told again.
const NOTED: i64 = 3;
// Stands for the outcome of a request that was declined.
const DECLINED: i64 = 2;
// Good news are told in a line or two.
const GOOD_CHARS: usize = 200;
// A list with nothing in it.
const NONE: &str = "[]";
// The arguments of a call without any.
const EMPTY: &str = "{}";

/// A call, and its result or error.
#[derive(Clone, Copy)]
struct Call<'a> {
    turn: &'a Turn<'a>,
    tool: Tool,
    arguments: &'a str,
    shown: Option<&'a str>,
    /// What it shows without the lines that its tool puts around that.
    within: &'a str,
    /// It waits, or looks again at something that goes on.
    waits: bool,
}

impl<'a> Call<'a> {
    fn of(turn: &'a Turn, tool: Tool, within: &'a str) -> Self {
        let arguments = turn.arguments.unwrap_or_default();
        Self {
            turn,
            tool,
            arguments,
            shown: turn.error.or(turn.result),
            within,
            waits: tool.watches || (!tool.changes && waits::waits(arguments)),
        }
    }

    /// Whether it looks again at something that goes on, and does not wait itself.
    fn watches(&self, row: &Row) -> bool {
        self.waits && !row.pauses
    }

    /// Whether what it shows is such a text.
    fn shows(&self, is_such: impl FnOnce(&str) -> bool) -> bool {
        self.shown.is_some_and(is_such)
    }

    /// Whether what a command wrote, without its frame, is such a text.
    fn shows_within(&self, is_such: impl FnOnce(&str) -> bool) -> bool {
        self.shown.is_some() && is_such(self.within)
    }

    /// Whether it failed of such a kind.
    fn is(&self, kind: &str) -> bool {
        self.turn.error_kind == Some(kind)
    }
}

/// Whether a call failed; work that goes on has not.
fn has_failed(row: &Row) -> bool {
    row.failed && !row.unfinished
}

/// Set the marks of a call.
pub fn mark_call(row: &mut Row, turn: &Turn, tool: Tool) {
    let within = framed(turn.error.or(turn.result).unwrap_or_default());
    let call = Call::of(turn, tool, &within);
    mark_wait(row, &call);
    let failure = Failure::of(row, &call);
    let looks = mark_use(row, &call, &failure);
    mark_outcome(row, &call, &failure);
    mark_failure(row, turn, looks || failure.of_call);
    mark_again(row, &call);
    mark_try(row, &call, &failure);
    mark_search(row, &call);
    mark_fault(row, &call);
}

/// Set whether a call waits, and for what.
fn mark_wait(row: &mut Row, call: &Call) {
    let (arguments, tool) = (call.arguments, call.tool);
    // Whoever waits again for what has ended waits for nothing.
    let is_over = || waits::awaits_one(arguments) && call.shows(waits::has_ended);
    let took_ns = call.turn.end_ns.saturating_sub(call.turn.start_ns);
    let acts = tool.changes || tool.searches || tool.reads || call.turn.failed;
    row.pauses = (tool.pauses && !is_over())
        || SLEEPS.is_match(arguments)
        || !acts && waits::takes_as_told(arguments, took_ns);
    let watches = call.watches(row);
    let is_held = || call.shows(waits::is_locked);
    if !row.failed || watches || row.pauses || STATE_COMMANDS.is_match(arguments) || is_held() {
        // A wait that timed out may exit with an error, and so may a state that is not final.
        let says_nothing = call.shows(|text| text.trim().is_empty());
        let ran_out = (call.is(RAN_OUT) || (row.failed && says_nothing)) && (watches || row.pauses);
        let looks = (tool.reads || tool.awaits) && !tool.notes;
        row.unfinished = ran_out
            || call.shows(|text| goes_on(text, arguments, tool) && !lasts(text))
            || looks && call.shows(waits::is_open);
    }
    let fine = !has_failed(row);
    row.later = !row.unfinished && call.shows(waits::says_later);
    row.well = !row.unfinished && call.shows(waits::is_well);
    row.in_vain = fine && !(tool.searches || tool.changes) && call.shows_within(is_empty);
    row.watches = watches && fine;
    row.good = fine && !row.unfinished && call.shows_within(|text| tells_good(text, tool));
}

/// Whether an answer says in a line or two that nothing is wrong, and nothing else.
fn tells_good(answer: &str, tool: Tool) -> bool {
    let is_none = || tool.checker.checks && answer.trim() == NONE;
    !is_longer(answer, GOOD_CHARS) && (GOOD_NEWS.is_match(answer) || is_none())
}

/// Set what a call does; return whether it only looks.
fn mark_use(row: &mut Row, call: &Call, failure: &Failure) -> bool {
    let (arguments, tool) = (call.arguments, call.tool);
    let failed = has_failed(row);
    let fine = !failed;
    // A thing of many has a name, or is given in parts, and no file is changed for it.
    let names_file = || tool.changes && changed_file(arguments).is_some();
    row.rewrites = failed && !failure.of_edit && names_file();
    let is_thing = || !row.rewrites && (is_one_thing(arguments) || !WORDED.is_match(arguments));
    row.one_thing = failed && (failure.of_edit || !tool.checker.checks && is_thing());
    row.of_place = failure.of_place;
    let command = head(arguments, COMMAND_CHARS);
    row.deploys = fine && (tool.deploys || DEPLOYS.is_match(command));
    let by_command = fine && tool.checker.shell;
    let by_shell = by_command && WRITING_COMMANDS.is_match(arguments);
    let installs_or_edits = || tools::installs(arguments) || EDIT_COMMANDS.is_match(arguments);
    row.changes = fine && (tool.changes || row.deploys || by_shell || installs_or_edits());
    row.asks = tool.asks;
    row.hands_over = tool.hands_over;
    row.delegates = tool.delegates;
    row.thinks = tool.thinks;
    row.removes = fine && tool.removes || (by_command && tools::removes(arguments));
    let made = || tool.makes || (by_command && makes(call.turn.name, call.turn.arguments));
    row.makes = fine && !row.removes && made();
    row.opens = tool.opens;
    row.goes_to = tool.goes_to || goes_by_command(arguments);
    row.undoes = tool.undoes || undoes_by_command(arguments);
    if tool.changes
        && let Some(codes) = edit_codes(arguments)
    {
        (row.edit, row.edit_back) = codes;
    }
    row.only_reads = fine && tool.reads;
    let looks_only = || tool.reads || tools::reads_by_command(arguments);
    row.missing = failed && call.is(MISSING) && looks_only();
    let watches = call.watches(row);
    let looks = tool.searches || tool.reads || watches || row.unfinished || failure.helps;
    let acts = fine && !(looks || row.pauses);
    let shows = acts && (tool.idle || only_looks(arguments, tool));
    row.works = acts && !shows;
    // That all is well is worth a look after each change.
    row.shows = shows || (fine && row.well && !row.pauses && !row.works);
    looks
}

/// Why a call failed; nothing of one that did not.
struct Failure {
    /// It asked how a program is used.
    helps: bool,
    /// What it removes is gone, or what it makes is there.
    gone: bool,
    /// It asked for more than fits.
    own_limit: bool,
    /// Its file is not there.
    lost: bool,
    /// It is an answer to what was asked.
    has_answer: bool,
    /// It is one of this call alone.
    of_call: bool,
    /// It is one of an edit, which says nothing of the next file.
    of_edit: bool,
    /// It is one of the place where the agent is, as in a game.
    of_place: bool,
    /// It is one of what stands in a file of data, which says nothing of the next file.
    of_file: bool,
}

impl Failure {
    fn of(row: &Row, call: &Call) -> Self {
        let arguments = call.arguments;
        let failed = has_failed(row);
        let gone = failed && is_gone(call.turn, call.tool);
        let gone_alone = gone && !call.shows(|text| names_given(arguments, text));
        // A number in the arguments may be what was too much.
        let has_number = arguments.contains(|sign: char| sign.is_ascii_digit());
        let is_too_much = |text: &str| TOO_MUCH.is_match(&waits::ends_of(text));
        let own_limit = failed && has_number && call.shows(is_too_much);
        let of_one = failed && call.shows(|text| OF_CALL.is_match(&waits::ends_of(text)));
        let lost = failed && call.is(MISSING) && FILE_ADDRESSES.is_match(arguments);
        let is_answer = |text: &str| answers(call.turn, call.tool, text);
        let has_answer = failed && !row.external && call.shows(is_answer);
        Self {
            helps: failed && asks_help(arguments),
            gone,
            own_limit,
            lost,
            has_answer,
            of_edit: failed && call.shows(|text| OF_EDIT.is_match(&waits::ends_of(text))),
            of_place: failed && call.shows(has_no_effect),
            of_file: failed && call.shows(|text| OF_FILE.is_match(&waits::ends_of(text))),
            of_call: gone_alone || own_limit || of_one || lost || has_answer,
        }
    }
}

/// Set by what the outcome of a call is compared.
fn mark_outcome(row: &mut Row, call: &Call, failure: &Failure) {
    let (arguments, tool) = (call.arguments, call.tool);
    let failed = has_failed(row);
    let signature = row.signature;
    if failure.helps || failure.of_call {
        if row.call != UNKNOWN && row.signature != UNKNOWN {
            row.signature = pair(row.signature, row.call);
        }
        if failure.of_call && row.call != UNKNOWN {
            row.outcome = pair(row.outcome, row.call);
        }
        if failure.has_answer && !failure.own_limit && !failure.gone {
            row.signature = pair(signature, thing_of(arguments));
        }
    } else if failure.of_edit
        && let Some(file) = changed_file(arguments)
    {
        let file = code(file);
        (row.signature, row.outcome) = (pair(row.signature, file), pair(row.outcome, file));
    } else if failed
        && tool.reads
        && call.is(MISSING)
        && let Some(file) = changed_file(arguments)
    {
        // Files of one name are looked for in many folders; others may be made next.
        row.signature = pair(row.signature, code(&stem_of(file)));
    } else if failure.of_file
        && let Some(file) = DATA_FILE.find_at(arguments, 0)
    {
        let file = code(&arguments[file]);
        (row.signature, row.outcome) = (pair(row.signature, file), pair(row.outcome, file));
    } else if failed && let Some(way) = WAYS.find_at(arguments, 0) {
        let way = code(&arguments[way]);
        (row.signature, row.outcome) = (pair(row.signature, way), pair(row.outcome, way));
    }
    if !failed && row.outcome != UNKNOWN && writes_lines(row, arguments, tool) {
        // It shows the file, which the same edit may make longer each time.
        row.outcome = row.call;
    }
    if !failed && tool.asks && call.shows(|text| UNDECIDED.is_match(text)) {
        // In whatever words: there was no answer.
        row.outcome = NO_ANSWER;
    }
    row.declined = !failed && call.shows_within(declines);
    if row.declined {
        // So is a request that nobody can do.
        row.outcome = DECLINED;
    }
    let may_guess = failed && !failure.of_call && !tool.in_words;
    row.guesses = may_guess && call.shows(|text| guesses(arguments, text));
    let is_hidden = |text: &str| {
        moves_on(arguments, text, tool) || UNSEEN.is_match(text) || DRAINED.is_match(text)
    };
    if !failed && (tool.chance || is_hidden(call.shown.unwrap_or_default())) {
        // Where it has got to, or what it saw, is not told.
        (row.outcome, row.signature) = (UNKNOWN, UNKNOWN);
    }
}

/// Whether a call writes lines of text into a file, and runs nothing.
fn writes_lines(row: &Row, arguments: &str, tool: Tool) -> bool {
    let names_file = || row.edit != UNKNOWN || changed_file(arguments).is_some();
    let by_tool = || tool.writes && names_file();
    arguments.contains("\\n") && (by_tool() || EDIT_COMMANDS.is_match(arguments))
}

/// The name of a file without its folders and its kind.
fn stem_of(file: &str) -> String {
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    let mut dots = name
        .match_indices('.')
        .map(|(at, _)| at)
        .filter(|at| *at > 0);
    name[..dots.next().unwrap_or(name.len())].to_lowercase()
}

/// Set whether a call tried to get further, and how a check of its falls short.
fn mark_try(row: &mut Row, call: &Call, failure: &Failure) {
    let (arguments, tool) = (call.arguments, call.tool);
    let failed = has_failed(row);
    let watches = call.watches(row);
    let is_own = failed && !row.external && !failure.gone && !failure.has_answer;
    // What had no time to end is no attempt in vain.
    let goes_on = call.is(RAN_OUT) && call.shows(|text| goes_on(text, arguments, tool));
    row.own = is_own && !REPORTS.is_match(arguments) && (row.guesses || !goes_on);
    // A look that fails, such as at a page that is not there, tries nothing that gets further.
    let by_tool = tool.reads && (row.missing || !tool.checker.checks);
    let is_refused = call.is(REFUSED) && tool.checker.looks(arguments);
    let is_look = by_tool || is_refused || watches || failure.helps;
    let shows_file = failure.of_file && DATA_FILE.is_match(arguments);
    row.tries = row.own && !(is_look || failure.own_limit || failure.lost || shows_file);
    let is_of_server = |text: &str| OF_SERVER.is_match(&waits::ends_of(text));
    row.ran_out = failed && call.is(RAN_OUT);
    row.of_server = failed && call.is(NETWORK) && call.shows(is_of_server);
    if is_mendable(call.turn) {
        row.mendable = row.outcome;
    }
    let still = row.pauses || watches || row.unfinished;
    let is_known = UNKNOWN != pair(row.call, row.outcome);
    let may_check = tool.checker.checks && !failed && !still && is_known;
    let in_words = tool.checker.judges(arguments, call.within);
    row.judges = may_check && tool.checker.critic && !in_words;
    if may_check && tool.checker.falls_short(arguments, call.within) {
        // What a critic says of one thing counts by its score; of many texts, a score is no more.
        let score = tool.checker.scored(call.within).filter(|_| !in_words);
        row.verdict = score.unwrap_or(UNKNOWN);
        let asked = if in_words { row.name } else { row.call };
        let said = score.or_else(|| tool.checker.said(call.within));
        row.check = pair(asked, said.unwrap_or(row.outcome));
    }
}

/// Set what a search found, and what a look shows.
fn mark_search(row: &mut Row, call: &Call) {
    let (turn, arguments, tool) = (call.turn, call.arguments, call.tool);
    let name = turn.name.unwrap_or_default();
    row.search_result = found(turn, tool, row, call.within);
    row.not_there = !(tool.changes || row.makes)
        && (row.failed && call.is(MISSING) || call.shows_within(|text| NOT_THERE.is_match(text)));
    if !row.failed && tool.plans {
        // A plan of which more or less is done is another one.
        let outcome = if call.shows(|text| tells_plan(arguments, text)) {
            NOTED
        } else {
            row.outcome
        };
        row.search_result = pair(pair(row.name, outcome), done_steps(arguments) + 1);
    } else if !row.failed && (tool.takes_notes || tool.thinks || notes_in_file(name, arguments)) {
        // Whether it says the same is told by the note, whatever its tool answers.
        row.search_result = row.name;
    } else if !row.failed && tool.gives_work {
        row.search_result = pair(row.name, row.outcome);
    } else if !row.failed && says_again(tool, arguments) {
        row.search_result = row.name;
    } else if !row.failed && tool.updates {
        row.search_result = pair(pair(row.name, state_of(arguments)), row.outcome);
        row.restates = row.search_result != UNKNOWN;
    }
    let may_go_on = call.waits || row.pauses || tool.tells_figures;
    let fine = !has_failed(row);
    if call.shown.is_none() && fine && !may_go_on && is_look_back(arguments, tool) {
        row.look_chars = UNSHOWN;
    }
    if !tool.changes && call.shown.is_some() && !makes(turn.name, turn.arguments) {
        mark_look(row, arguments, call.within, tool);
    }
    if row.works && call.shows_within(|text| ACTS_DONE.found(text)) {
        row.look_chars = DONE;
    }
    if row.look_chars > 0 && leads_on(arguments, call.within) && is_empty_page(call.within) {
        // There is more to look through.
        row.look_chars = 0;
    }
    if row.look_chars > 0 && row.tests_failed == 0.0 && TEST_FILE.is_match(arguments) {
        // The tests of each of many files pass.
        row.look_chars = 0;
    }
}

/// Set by which fault its answer is compared, whatever else it was given or tells.
fn mark_fault(row: &mut Row, call: &Call) {
    if row.pauses || call.watches(row) {
        return;
    }
    let proposes = call.tool.proposes;
    let fault = if proposes {
        turned_down(row, call.turn, call.arguments)
    } else {
        fault_of(row, call.turn, call.arguments, call.tool.changes)
    };
    row.faulty = fault != UNKNOWN;
    if row.faulty && proposes {
        // Another plan is one more try.
        (row.outcome, row.signature) = (fault, fault);
    }
    if row.faulty {
        (row.check, row.search_result) = (fault, fault);
    }
}

/// Set the marks by which a call that comes again may be none that repeats.
fn mark_again(row: &mut Row, call: &Call) {
    let command = head(call.arguments, COMMAND_CHARS);
    let lists = || call.tool.reads || LISTS.is_match(command);
    let shows_state = call.tool.awaits || STATE_COMMANDS.is_match(command);
    let tells_state = || call.tool.reads && call.shows(waits::tells_state);
    let goes_on = !call.shows(waits::has_ended);
    row.states = goes_on && (shows_state || tells_state());
    row.awaits = row.states || (goes_on && lists() && call.shows_within(says_nothing));
    row.vague = call.shows(is_vague);
    row.file = code_of(changed_file(call.arguments).filter(|_| row.works));
    row.settles = !row.failed && (call.tool.settles || SETTLES.is_match(command));
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
    let moves = tool.moves || MOVE_ARGUMENTS.is_match(arguments);
    moves && (MOVED.is_match(shown) || tool.moves && ACTS_DONE.found(shown))
}

/// Whether a call would be the same again without its result: it names what it is for, and moves
/// nothing on.
fn is_look_back(arguments: &str, tool: Tool) -> bool {
    let moves = tool.moves || tool.chance || tool.asks || tool.changes;
    !moves && arguments.len() > EMPTY.len() && !MOVE_ARGUMENTS.is_match(arguments)
}

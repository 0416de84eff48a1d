//! The purpose of a call by its tool and its command: to change, to look, to search, to ask.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::LazyLock;

use foldhash::fast::RandomState;
use regex::Regex;

use super::text::{line, words_in};
use super::waits;
use crate::patterns::{pattern, rows};
use crate::tables::{CHECKS, MADE, TOOL_KINDS, any_of};

rows! {
    CHANGES: Forms = TOOL_KINDS["changes"];
    SEARCHES: Forms = TOOL_KINDS["searches"];
    READS: Forms = TOOL_KINDS["reads"];
    TESTS: Forms = TOOL_KINDS["tests"];
    REMOVES: Forms = TOOL_KINDS["removes"];
    READING: Forms = TOOL_KINDS["reading_command"];
    LOOKS: Forms = TOOL_KINDS["looks"];
    LOOK: Forms = TOOL_KINDS["file_look"];
    CARRIES: Forms = TOOL_KINDS["carries"];
    INSTALLS: Forms = TOOL_KINDS["installs"];
    THINKS: Forms = TOOL_KINDS["thinks"];
    CLOCKS: Forms = TOOL_KINDS["clocks"];
    HANDS_OVER: Forms = TOOL_KINDS["hands_over"];
    SPAWNS: Forms = TOOL_KINDS["spawns"];
    ANSWERING: Forms = TOOL_KINDS["answering_command"];
    JUDGES: Pattern = CHECKS["critic_name"];
}

static MAKING: LazyLock<Regex> = LazyLock::new(|| made("making"));
static TAKING: LazyLock<Regex> = LazyLock::new(|| made("taking"));
static SENT: LazyLock<Regex> = LazyLock::new(|| made("sent"));
static FIGURES: LazyLock<Regex> = LazyLock::new(|| made("figures"));
static NAME_WORDS: LazyLock<Regex> = LazyLock::new(|| pattern("[A-Z]?[a-z]+|[A-Z]+"));

fn made(name: &str) -> Regex {
    pattern(&any_of(&MADE[name]))
}

// There are few tools, and what their names say is kept.
const NAMES_KEPT_MAX: usize = 1_000;

/// What is read from names of tools, kept for each.
pub type Kept<T> = RefCell<HashMap<String, T, RandomState>>;

/// What a name says, as it is kept, or as `read` finds it.
pub fn kept<T: Copy>(known: &Kept<T>, name: &str, read: impl FnOnce(&str) -> T) -> T {
    if let Some(found) = known.borrow().get(name) {
        return *found;
    }
    let found = read(name);
    let mut known = known.borrow_mut();
    if known.len() >= NAMES_KEPT_MAX {
        known.clear();
    }
    known.insert(name.to_owned(), found);
    found
}

/// What the name of a tool says of its purpose.
#[derive(Clone, Copy, Debug, Default)]
pub struct Purpose {
    /// It changes something.
    pub changes: bool,
    /// It searches.
    pub searches: bool,
    /// It only looks at something.
    pub reads: bool,
    /// It runs tests.
    pub tests: bool,
    /// It removes something.
    pub removes: bool,
    /// It carries something to or from a server.
    pub carries: bool,
    /// It judges a text that it is given.
    pub judges: bool,
    /// It sends or makes something.
    pub makes: bool,
    /// It is asked for figures, which count there.
    pub tells_figures: bool,
    /// It begins another agent, and returns what that one found.
    pub spawns: bool,
    /// It takes down a thought, and does nothing.
    pub thinks: bool,
    /// It tells the time.
    pub tells_time: bool,
    /// It hands over to another agent.
    pub hands_over: bool,
    /// It does nothing but wait.
    pub pauses: bool,
    /// It waits for something that runs, and shows how far it is.
    pub watches: bool,
    /// It shows something that changes by itself.
    pub awaits: bool,
}

impl Purpose {
    fn read(name: &str) -> Self {
        let line = line(name);
        Self {
            changes: CHANGES.found(name),
            searches: SEARCHES.found(line),
            reads: READS.found(line),
            tests: TESTS.found(name),
            removes: REMOVES.found(line),
            carries: CARRIES.found(line),
            judges: JUDGES.is_match(name),
            makes: makes_by_name(name),
            tells_figures: tells_figures(name),
            spawns: SPAWNS.found(line),
            thinks: THINKS.found(line),
            tells_time: CLOCKS.found(line),
            hands_over: HANDS_OVER.found(line),
            pauses: waits::pauses(line),
            watches: waits::watches(line),
            awaits: waits::awaits(line),
        }
    }
}

thread_local! {
    static PURPOSES: Kept<Purpose> = Kept::default();
}

/// The purpose of a tool by its name; none without a name.
#[must_use]
pub fn purpose(name: Option<&str>) -> Purpose {
    name.map_or_else(Purpose::default, |name| {
        PURPOSES.with(|known| kept(known, name, Purpose::read))
    })
}

/// Whether a command removes something.
#[must_use]
pub fn removes(arguments: &str) -> bool {
    REMOVES.found(line(arguments))
}

/// Whether a command shows files or a history, and runs nothing else after that.
#[must_use]
pub fn reads_by_command(arguments: &str) -> bool {
    READING.found(arguments)
}

/// Whether a command only looks at something, in all of its parts.
#[must_use]
pub fn looks_by_command(arguments: &str) -> bool {
    LOOKS.found(arguments)
}

/// Whether a call looks at stored text, whose words are not about the call.
#[must_use]
pub fn looks_at_file(arguments: &str) -> bool {
    LOOK.found(arguments)
}

/// Whether a command answers by its exit code: 1 says that nothing matches, differs or holds.
#[must_use]
pub fn answers_by_code(arguments: &str) -> bool {
    ANSWERING.found(arguments)
}

/// Whether a command installs something.
#[must_use]
pub fn installs(arguments: &str) -> bool {
    INSTALLS.found(line(arguments))
}

/// Whether figures are asked for, which count there, by the name of a tool or by a command.
#[must_use]
pub fn tells_figures(asked: &str) -> bool {
    FIGURES.is_match(asked)
}

/// Whether a tool sends or makes something, by its name.
fn makes_by_name(tool: &str) -> bool {
    let words: Vec<String> = words_in(tool, &NAME_WORDS).map(str::to_lowercase).collect();
    if words.len() == 1 && SENT.is_match(&words[0]) {
        return true;
    }
    let is_verb = |word: &&String| MAKING.is_match(word) || TAKING.is_match(word);
    words
        .iter()
        .find(is_verb)
        .is_some_and(|verb| MAKING.is_match(verb))
}

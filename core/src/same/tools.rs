//! The purpose of a call by its tool and its command: to change, to look, to search, to ask.

use std::sync::LazyLock;

use super::text::line;
use crate::patterns::Forms;
use crate::tables::TOOL_KINDS;

static CHANGES: LazyLock<Forms> = LazyLock::new(|| Forms::new(&TOOL_KINDS["changes"]));
static SEARCHES: LazyLock<Forms> = LazyLock::new(|| Forms::new(&TOOL_KINDS["searches"]));
static READS: LazyLock<Forms> = LazyLock::new(|| Forms::new(&TOOL_KINDS["reads"]));
static TESTS: LazyLock<Forms> = LazyLock::new(|| Forms::new(&TOOL_KINDS["tests"]));
static REMOVES: LazyLock<Forms> = LazyLock::new(|| Forms::new(&TOOL_KINDS["removes"]));
static READING: LazyLock<Forms> = LazyLock::new(|| Forms::new(&TOOL_KINDS["reading_command"]));
static LOOKS: LazyLock<Forms> = LazyLock::new(|| Forms::new(&TOOL_KINDS["looks"]));
static LOOK: LazyLock<Forms> = LazyLock::new(|| Forms::new(&TOOL_KINDS["file_look"]));
static INSTALLS: LazyLock<Forms> = LazyLock::new(|| Forms::new(&TOOL_KINDS["installs"]));
static THINKS: LazyLock<Forms> = LazyLock::new(|| Forms::new(&TOOL_KINDS["thinks"]));
static HANDS_OVER: LazyLock<Forms> = LazyLock::new(|| Forms::new(&TOOL_KINDS["hands_over"]));
static SPAWNS: LazyLock<Forms> = LazyLock::new(|| Forms::new(&TOOL_KINDS["spawns"]));
static ANSWERING: LazyLock<Forms> = LazyLock::new(|| Forms::new(&TOOL_KINDS["answering_command"]));

/// Whether a tool changes something, by its name.
#[must_use]
pub fn changes(name: &str) -> bool {
    CHANGES.found(name)
}

/// Whether a tool searches, by its name.
#[must_use]
pub fn searches(name: &str) -> bool {
    SEARCHES.found(line(name))
}

/// Whether a tool only looks at something, by its name.
#[must_use]
pub fn reads(name: &str) -> bool {
    READS.found(line(name))
}

/// Whether a tool runs tests, by its name.
#[must_use]
pub fn tests(name: &str) -> bool {
    TESTS.found(name)
}

/// Whether a call removes something, by the name of its tool or by its command.
#[must_use]
pub fn removes(name: Option<&str>, arguments: &str) -> bool {
    name.is_some_and(|name| REMOVES.found(line(name))) || REMOVES.found(line(arguments))
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

/// Whether a tool begins another agent, and returns what that one found, by its name.
#[must_use]
pub fn spawns(name: &str) -> bool {
    SPAWNS.found(line(name))
}

/// Whether a tool takes down a thought, and does nothing, by its name.
#[must_use]
pub fn thinks(name: &str) -> bool {
    THINKS.found(line(name))
}

/// Whether a tool hands over to another agent, by its name.
#[must_use]
pub fn hands_over(name: &str) -> bool {
    HANDS_OVER.found(line(name))
}

//! What the name of a tool says about it.

use super::checks::Checker;
use crate::count::undone::{goes_to, opens, undoes};
use crate::patterns::rows;
use crate::same::tools::{Kept, kept, purpose};
use crate::tables::{MARKS, TOOL_KINDS};

rows! {
    ASSESSES: Pattern = MARKS["assesses"];
    SHOWS_STATE: Pattern = MARKS["shows_state"];
    OWN_NOTES: Pattern = MARKS["own_notes"];
    MOVES: Pattern = MARKS["moves"];
    PLANS: Pattern = MARKS["plans"];
    UPDATES: Pattern = TOOL_KINDS["updates"];
    VIEWS: Pattern = MARKS["views"];
    ASKS: Pattern = MARKS["asks"];
    /// A tool or a command that settles something.
    pub(super) SETTLES: Pattern = MARKS["settles"];
    /// A tool or a command that puts a program into service anew.
    pub(super) DEPLOYS: Pattern = MARKS["deploys"];
    DELEGATES: Pattern = MARKS["delegates"];
    TELLS: Pattern = MARKS["tells"];
    LISTING: Forms = MARKS["listing"];
    TAKES_NOTES: Pattern = MARKS["takes_notes"];
    PROPOSES: Pattern = MARKS["proposes"];
    VERDICTS: Pattern = MARKS["verdicts"];
    QUERIES: Pattern = MARKS["queries"];
    CHANCE: Pattern = MARKS["chance"];
}

/// What the name of a tool says about it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tool {
    /// It changes something.
    pub changes: bool,
    /// It changes something, and runs nothing.
    pub writes: bool,
    /// It searches, and changes nothing.
    pub searches: bool,
    /// It searches by words that have no places, as those of a command or a query have.
    pub in_words: bool,
    /// It lists what fits a filter.
    pub lists: bool,
    /// It only looks at something.
    pub reads: bool,
    /// It does nothing but wait.
    pub pauses: bool,
    /// It looks again at something that goes on.
    pub watches: bool,
    /// It shows something that changes by itself.
    pub awaits: bool,
    /// It moves on from where its last call ended.
    pub moves: bool,
    /// It leads to what is new, and shows nothing new itself.
    pub leads: bool,
    /// It hands over to another agent.
    pub hands_over: bool,
    /// It only gives its work to another agent.
    pub delegates: bool,
    /// It begins another agent with a task that is told in words, and returns its answer.
    pub gives_work: bool,
    /// It tells somebody something.
    pub tells: bool,
    /// It shows the state of one thing, whatever it is given.
    pub shows_state: bool,
    /// It says of each thing in which class it is.
    pub assesses: bool,
    /// Its result is a matter of chance.
    pub chance: bool,
    /// It shows what the agent itself wrote down.
    pub notes: bool,
    /// It takes down a note of the agent.
    pub takes_notes: bool,
    /// It takes down a thought.
    pub thinks: bool,
    /// It asks a person to take a plan or a step.
    pub proposes: bool,
    /// It says of a thing whether it is as it should be.
    pub verdicts: bool,
    /// It writes a plan as a whole.
    pub plans: bool,
    /// It only takes down a thought or a plan, or shows something.
    pub idle: bool,
    /// It sets the state of a thing.
    pub updates: bool,
    /// It makes something.
    pub makes: bool,
    /// It is asked for figures, which count there.
    pub tells_figures: bool,
    /// It settles something.
    pub settles: bool,
    /// It puts a program into service anew.
    pub deploys: bool,
    /// It removes something.
    pub removes: bool,
    /// It puts back what was changed.
    pub undoes: bool,
    /// It goes to another revision or place.
    pub goes_to: bool,
    /// It opens a page, a file or a folder.
    pub opens: bool,
    /// A person answers it.
    pub asks: bool,
    /// How its answers are checked; a tool that changes something checks nothing.
    pub checker: Checker,
}

impl Tool {
    fn of(name: &str) -> Self {
        let purpose = purpose(Some(name));
        let changes = purpose.changes;
        let searches = !changes && purpose.searches;
        let plans = PLANS.is_match(name);
        let moves = MOVES.is_match(name);
        let checker = Checker::of(name);
        Self {
            changes,
            writes: changes && !checker.checks,
            searches,
            lists: !changes && !purpose.awaits && LISTING.found(name),
            in_words: searches && !QUERIES.is_match(name),
            reads: !changes && purpose.reads,
            pauses: purpose.pauses,
            watches: !changes && purpose.watches,
            awaits: !changes && purpose.awaits,
            moves,
            leads: moves || purpose.hands_over || purpose.thinks || purpose.tells_time,
            hands_over: purpose.hands_over,
            delegates: purpose.hands_over || (purpose.spawns && DELEGATES.is_match(name)),
            gives_work: purpose.spawns && DELEGATES.is_match(name),
            tells: TELLS.is_match(name),
            chance: CHANCE.is_match(name),
            notes: OWN_NOTES.is_match(name),
            takes_notes: TAKES_NOTES.is_match(name),
            thinks: purpose.thinks,
            proposes: PROPOSES.is_match(name),
            verdicts: VERDICTS.is_match(name),
            plans,
            idle: plans
                || purpose.thinks
                || purpose.tells_time
                || (!changes && VIEWS.is_match(name)),
            updates: UPDATES.is_match(name) && !TAKES_NOTES.is_match(name),
            makes: purpose.makes,
            tells_figures: purpose.tells_figures,
            settles: SETTLES.is_match(name),
            deploys: !(purpose.reads || purpose.searches || purpose.watches)
                && DEPLOYS.is_match(name),
            removes: purpose.removes,
            undoes: undoes(name),
            goes_to: goes_to(name),
            opens: opens(name),
            asks: ASKS.is_match(name),
            shows_state: SHOWS_STATE.is_match(name),
            assesses: ASSESSES.is_match(name),
            checker: if changes { Checker::default() } else { checker },
        }
    }
}

thread_local! {
    static TOOLS: Kept<Tool> = Kept::default();
}

/// What the name of a tool says about it; nothing without a name.
#[must_use]
pub fn tool(name: Option<&str>) -> Tool {
    name.map_or_else(Tool::default, |name| {
        TOOLS.with(|known| kept(known, name, Tool::of))
    })
}

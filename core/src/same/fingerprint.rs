//! The columns by which a turn is compared, made of what the world said of it.
//!
//! Volatile parts of results are masked before results are compared. The arguments of a call are
//! not masked, because another id is other work, but a few do not count. Values that the trace does
//! not give stay unknown, and unknown equals nothing.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use super::answers::said;
use super::block_pages::block_page;
use super::found::unordered;
use super::notations::{in_one_notation, told_in_one_notation};
use super::policy::Sameness;
use super::request::{plainly_told, request, without_label, without_names};
use super::signature::{Known, signature};
use super::text::{digest, sha256};
use super::tools::{looks_at_file, purpose, tells_figures};
use super::traces::{Place, is_hash, place_of};
use super::turn::{Figures, Turn};
use super::{errors, kinds, made, masks, quotes, runners};
use crate::patterns::pattern;

/// The columns that are written of one turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fingerprint {
    /// Figures of a test run: recorded, else read from the text.
    pub figures: Figures,
    /// Whether the turn failed, as the span says, else as the text does.
    pub failed: Option<bool>,
    /// The type of the failure.
    pub error_type: Option<String>,
    /// The text of the failure.
    pub error: Option<String>,
    /// The kind of the failure.
    pub error_kind: Option<String>,
    /// The place of the failure.
    pub location: Option<String>,
    /// The hash of the stack trace, or of the text in its place.
    pub trace_hash: Option<String>,
    /// The digest of the call.
    pub call: Option<String>,
    /// The digest of the outcome.
    pub outcome: Option<String>,
    /// The signature.
    pub signature: Option<String>,
    /// The hash of the response.
    pub response: Option<String>,
    /// The hash of what the agent goes on to say.
    pub talks_on: Option<String>,
}

// The text of nothing in JSON.
const NOTHING: &str = "null";
// Figures in the text of a model's failure, such as how many tokens were too many, and of thoughts.
static FIGURES: LazyLock<Regex> = LazyLock::new(|| pattern("[0-9][0-9,.]*"));

/// Make the columns by which a turn is compared.
#[must_use]
pub fn fingerprint(turn: &Turn<'_>, sameness: &Sameness) -> Fingerprint {
    let is_call = turn.kind == "tool";
    let read = if is_call {
        runners::figures_of_turn(turn)
    } else {
        Figures::default()
    };
    let is_failed = kinds::failed(turn, read.failed);
    let failed = is_failed == Some(true);
    let error = kinds::error(turn, is_failed);
    let error_type = kinds::error_type(turn, is_failed);
    let hidden = failed && error.is_some_and(errors::says_nothing);
    let place = placed(turn, failed, error, error_type.as_deref(), hidden);
    let asked = request(turn, sameness);
    let asked = asked.as_deref();
    let has_outcome = matches!(turn.kind, "tool" | "handoff" | "attempt" | "switch");
    let answer = answer(turn, error, sameness).filter(|_| has_outcome && !failed);
    let message = error
        .filter(|_| failed)
        .map(|text| message(turn, text, asked, sameness));
    let polls = is_call && turn.name.is_some_and(|name| sameness.polls(name));
    let call = if polls {
        None
    } else {
        call(turn, asked, sameness).map(|text| digest(&text))
    };
    let told = if failed {
        message
            .as_ref()
            .map(|text| digest(&format!("failed {text}")))
    } else {
        answer.as_deref().map(digest)
    };
    let may_fail = matches!(turn.kind, "tool" | "model") && failed;
    let outcome = told.filter(|_| has_outcome || may_fail);
    let known = Known {
        turn,
        request: asked,
        answer: answer.as_deref(),
        message: message.as_deref(),
        call: call.as_deref(),
        outcome: outcome.as_deref(),
        failed,
        hidden,
        error,
        error_type: error_type.as_deref(),
        location: place.location.as_deref(),
        failing: read.failed,
    };
    let kind = may_fail
        .then(|| kinds::error_kind(turn, error, error_type.as_deref(), read.failed, hidden).into());
    Fingerprint {
        figures: turn.figures.or(read),
        failed: is_failed,
        error_kind: kind,
        signature: if polls { None } else { signature(&known) },
        response: turn.response.map(|text| sha256(&said(text))),
        talks_on: turn.talks_on.map(|text| sha256(&said(text))),
        error: error.map(str::to_owned),
        error_type,
        location: place.location,
        trace_hash: place.trace_hash,
        call,
        outcome,
    }
}

/// Where a failure happened; a trace that was hashed before stays as it is.
fn placed(
    turn: &Turn<'_>,
    failed: bool,
    error: Option<&str>,
    error_type: Option<&str>,
    hidden: bool,
) -> Place {
    let own = turn.location.map(str::to_owned);
    if let Some(hash) = turn.trace.filter(|trace| is_hash(trace)) {
        return Place {
            location: own,
            trace_hash: Some(hash.to_owned()),
        };
    }
    let shown = error
        .filter(|_| !hidden)
        .map(|error| turn.result.unwrap_or(error));
    let Some(text) = turn.trace.or(shown).filter(|_| failed) else {
        return Place {
            location: own,
            trace_hash: None,
        };
    };
    let found = place_of(text, error_type);
    Place {
        location: own.or(found.location),
        ..found
    }
}

fn answer(turn: &Turn<'_>, error: Option<&str>, sameness: &Sameness) -> Option<String> {
    let is_tool = turn.kind == "tool";
    let purpose = purpose(turn.name);
    // A command may answer by what its span calls an error, and who hands over gets no answer.
    let nothing = || (is_tool && purpose.hands_over).then_some("");
    let given = turn.result.or(error.filter(|_| is_tool));
    let looks = purpose.reads || purpose.searches;
    // Only a look at something tells by nothing; other calls have nothing to return.
    let given = given.filter(|&text| text != NOTHING || (looks && turn.arguments != Some("{}")));
    let result = without_names(given.or_else(nothing)?, turn);
    let result = if is_tool {
        without_label(result, turn.arguments)
    } else {
        result
    };
    let result = if is_tool && purpose.searches {
        unordered(result)
    } else {
        result
    };
    let makes = is_tool && made::makes(turn.name, turn.arguments);
    let result = if makes {
        Cow::Owned(made::made_result(&result, &sameness.results))
    } else {
        result
    };
    let calls = !purpose.tells_figures;
    // A look that tells of attempts is one at something that goes on.
    let looks = purpose.reads;
    let is_text = |given: &str| looks_at_file(given) && !tells_figures(given);
    let without = masks::Counters {
        calls,
        attempts: calls && !looks,
        steps: calls && looks && turn.arguments.is_some_and(is_text),
    };
    let answer = masks::answer(&result, sameness, without);
    if is_tool && (purpose.thinks || purpose.tells_time) {
        // A tool of thoughts only counts them, and another time is no news.
        return Some(FIGURES.replace_all(&answer, "#").into_owned());
    }
    Some(answer)
}

fn message(turn: &Turn<'_>, error: &str, asked: Option<&str>, sameness: &Sameness) -> String {
    let (name, given) = if turn.kind == "tool" {
        (turn.name, turn.arguments)
    } else {
        (None, None)
    };
    if let Some(page) = block_page(error) {
        return blocked(page, given);
    }
    let error = &*plainly_told(without_label(Cow::Borrowed(error), given), given);
    let text = quotes::compared_error(error, name, given, sameness);
    let text = told_in_one_notation(text, given);
    let text = masks::masked(&text, &sameness.masks, true);
    if turn.kind == "model" {
        return FIGURES.replace_all(&text, "#").into_owned();
    }
    text + &masks::named_ids(error, asked).unwrap_or_default()
}

/// A page by which a service keeps programs out: its title, and the site that was asked for.
fn blocked(page: &str, given: Option<&str>) -> String {
    let title = page.split(['<', '\n']).next().unwrap_or_default();
    let given = given.unwrap_or_default();
    let site = given.split_once("://").map_or("", |(_, rest)| rest);
    let site = site.split(['/', '"', '?', ':', ' ', '\\']).next();
    format!(
        "{} {}",
        title.trim().to_lowercase(),
        site.unwrap_or_default()
    )
}

fn call(turn: &Turn<'_>, asked: Option<&str>, sameness: &Sameness) -> Option<String> {
    match turn.kind {
        // An attempt is compared by its blockers alone; its status is a column of its own.
        "attempt" => asked.map(str::to_owned),
        "model" => turn
            .arguments
            .map(|text| masks::masked(text, &sameness.masks, false)),
        "user" => masks::prompt_words(turn.text?, &sameness.masks),
        "tool" => {
            let told = turn.result.or(turn.error).unwrap_or_default();
            Some(format!("{}({}", turn.name?, in_one_notation(asked?, told)))
        }
        _ => Some(format!("{}({}", turn.name?, asked?)),
    }
}

//! Waiting: calls that wait, and results that say that something has not ended.
//!
//! Which calls are polls is decided by these marks and by time, where turns are counted.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::text::{is_longer, line};
use crate::patterns::{Pattern, rows};
use crate::tables::{Row, WAITING};

// Only the beginning and the end of a result speak of the call itself.
const READ_CHARS: usize = 400;
// A longer result shows more than a state.
const STATE_CHARS: usize = 80;

rows! {
    PAUSES: Forms = WAITING["pauses"];
    WATCHES: Forms = WAITING["watches"];
    ARGUMENTS: Forms = WAITING["arguments"];
    AWAITED: Forms = WAITING["awaited"];
    SILENCE: Forms = WAITING["silence"];
    UNFINISHED: Forms = WAITING["unfinished"] | WAITING["last_lines"];
    BEGUN: Forms = WAITING["begun"];
    LOCKED: Forms = WAITING["locked"];
    LATER: Forms = WAITING["later"];
    TELLS: Forms = WAITING["tells"];
    STATES: Forms = WAITING["states"];
    ENDED: Forms = WAITING["ended"];
    SAYS_WAITS: Forms = WAITING["says_waits"];
    WELL: Forms = WAITING["well"];
    OPEN: Forms = WAITING["open"];
    COUNTS: Pattern = WAITING["counts"];
    COUNTED: Pattern = WAITING["counted"];
}

// What takes less is no wait.
const TOLD_NS_MIN: i64 = 2_000_000_000;

static LENGTHS: LazyLock<Vec<(Pattern, f64)>> = LazyLock::new(|| {
    let unit_ns = |row: &Row| row.kind.parse().unwrap_or(0.0);
    let rows = WAITING["lengths"].iter();
    rows.map(|row| (Pattern::from(row), unit_ns(row))).collect()
});
static PROGRESS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    let rows = WAITING["progress"].iter();
    rows.map(Pattern::from).collect()
});

/// Whether a tool does nothing but wait, by its name.
pub(super) fn pauses(name: &str) -> bool {
    PAUSES.found(name)
}

/// Whether a tool waits for something that runs, and shows how far it is, by its name.
pub(super) fn watches(name: &str) -> bool {
    WATCHES.found(name)
}

/// Whether a tool shows something that changes by itself, by its name.
pub(super) fn awaits(name: &str) -> bool {
    STATES.found(name)
}

/// Whether a call waits by itself, whatever else its command does.
#[must_use]
pub fn waits(arguments: &str) -> bool {
    ARGUMENTS.found(line(arguments))
}

/// Whether a call took as long as its arguments say, and no more than a moment longer.
#[must_use]
pub fn takes_as_told(arguments: &str, took_ns: i64) -> bool {
    if took_ns < TOLD_NS_MIN || is_longer(arguments, READ_CHARS) {
        return false;
    }
    let told = LENGTHS.iter().filter_map(|(form, unit_ns)| {
        let told = form.captures(arguments)?;
        let length = told.name("length").or_else(|| told.name("length2"))?;
        Some(length.parse::<f64>().ok()? * unit_ns)
    });
    let took_ns = took_ns as f64;
    told.into_iter()
        .any(|told_ns| (0.98..=1.1).contains(&(took_ns / told_ns)))
}

/// Whether the arguments of a wait name what is waited for.
#[must_use]
pub fn awaits_one(arguments: &str) -> bool {
    AWAITED.found(arguments)
}

/// Whether a message to a model says that nobody said anything.
#[must_use]
pub fn is_silence(message: &str) -> bool {
    SILENCE.found(message)
}

/// Whether a response says that its agent waits.
#[must_use]
pub fn says_waits(response: &str) -> bool {
    SAYS_WAITS.found(&ends_of(response))
}

/// Whether a result says that what was looked at has not ended.
#[must_use]
pub fn is_unfinished(result: &str) -> bool {
    let text = ends_of(result);
    let counts = || has_more_to_count(&text) || is_below_its_end(&text);
    let goes_on = UNFINISHED.found(&text) || LOCKED.found(&text) || counts();
    goes_on && !BEGUN.found(&text)
}

/// Whether a look shows nothing but a state that another ends, such as that of an open ticket.
#[must_use]
pub fn is_open(result: &str) -> bool {
    let may = !is_longer(result, STATE_CHARS) && !result.trim_start().starts_with('[');
    may && OPEN.found(result)
}

/// Whether a short result asks to come again later.
#[must_use]
pub fn says_later(result: &str) -> bool {
    !is_longer(result, READ_CHARS) && LATER.found(result)
}

/// Whether a short result tells how far something is.
#[must_use]
pub fn tells_state(result: &str) -> bool {
    !is_longer(result, READ_CHARS) && TELLS.found(result)
}

/// Whether a result says that another holds a lock that the call needs.
#[must_use]
pub fn is_locked(result: &str) -> bool {
    LOCKED.found(&ends_of(result))
}

/// Whether a result says that what was looked at is well, so that nothing is waited for.
#[must_use]
pub fn is_well(result: &str) -> bool {
    WELL.found(&ends_of(result))
}

/// Whether a result says that what was looked at has ended.
#[must_use]
pub fn has_ended(result: &str) -> bool {
    ENDED.found(&ends_of(result))
}

/// The beginning and the end of a result, which speak of the call itself.
#[must_use]
pub fn ends_of(result: &str) -> Cow<'_, str> {
    if !is_longer(result, 2 * READ_CHARS) {
        return Cow::Borrowed(result);
    }
    let bound = |at: Option<(usize, char)>| at.map_or(0, |(place, _)| place);
    let head = bound(result.char_indices().nth(READ_CHARS));
    let tail = bound(result.char_indices().nth_back(READ_CHARS - 1));
    Cow::Owned(format!("{}\n{}", &result[..head], &result[tail..]))
}

fn has_more_to_count(text: &str) -> bool {
    let is_inside = |sign: char| sign.is_numeric() || matches!(sign, '.' | '/' | '-');
    let mut start = 0;
    while let Some(pair) = COUNTS.captures_at(text, start) {
        let whole = pair.range();
        let stands_alone =
            !text[..whole.start].ends_with(is_inside) && !text[whole.end..].starts_with(is_inside);
        // A digit is one byte, and the words are looked for from the last one.
        if stands_alone && COUNTED.is_match(&text[whole.end - 1..]) {
            if number(pair.get(1)) < number(pair.get(2)) {
                return true;
            }
            start = whole.end;
        } else {
            // A pair may begin within one that is part of a date or a path.
            start = whole.start + 1;
        }
    }
    false
}

/// Whether figures that stand apart say that less is done than there is.
fn is_below_its_end(text: &str) -> bool {
    let may = text.contains("otal") || !is_longer(text, STATE_CHARS);
    let mut pairs = PROGRESS
        .iter()
        .filter(|_| may)
        .filter_map(|form| form.captures(text));
    pairs.any(|pair| number(pair.name("done")) < number(pair.name("all")))
}

// Nine digits at most.
fn number(digits: Option<&str>) -> u32 {
    digits
        .and_then(|digits| digits.parse().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_of_many_go_on_and_all_of_them_do_not() {
        for text in ["3 of 10 checks done", "0/1 ready", "12/40 tasks complete"] {
            assert!(is_unfinished(text), "{text}");
        }
        for text in [
            "10 of 10 checks done",
            "2026/11/26",
            "page 3 of 10",
            "3/4done",
        ] {
            assert!(!is_unfinished(text), "{text}");
        }
        assert!(is_unfinished("3/3 built, 1/4 done"));
        assert!(is_unfinished("1.5 of 2 of 3 done"));
    }

    #[test]
    fn a_call_that_takes_as_long_as_it_says_waits() {
        let takes = |arguments, seconds: i64| takes_as_told(arguments, seconds * 1_000_000_000);
        for (arguments, seconds) in [
            (r#"{"seconds":30}"#, 30),
            (r#"{"minuten":5}"#, 300),
            (r#"{"duration":"5m"}"#, 300),
            (r#"{"delayMs":20000}"#, 20),
        ] {
            assert!(takes(arguments, seconds), "{arguments}");
            assert!(!takes(arguments, 4 * seconds), "{arguments}");
        }
        assert!(!takes(r#"{"timeout":30}"#, 30));
        assert!(!takes(r#"{"seconds":1}"#, 1));
    }

    #[test]
    fn figures_apart_go_on_below_their_end() {
        for text in [
            r#"{"done":3,"total":10}"#,
            r#"{"total_rows":500,"rows_processed":120}"#,
            "epoch 3/10",
        ] {
            assert!(is_unfinished(text), "{text}");
        }
        for text in [
            r#"{"done":10,"total":10}"#,
            r#"{"page":3,"total":10}"#,
            "epoch 10/10",
        ] {
            assert!(!is_unfinished(text), "{text}");
        }
    }

    #[test]
    fn a_state_that_another_ends_is_open_where_nothing_else_is_shown() {
        assert!(is_open("ticket 4: open"));
        assert!(is_open(r#"{"id":4,"status":"open"}"#));
        assert!(!is_open("ticket 4: closed"));
        let page = "The door of the house is to be painted, and who does so is not known yet.";
        assert!(!is_open(&format!(r#"{{"status":"open","text":"{page}"}}"#)));
    }

    #[test]
    fn only_the_ends_of_a_long_result_speak_of_the_call() {
        let page = "The report has words of many kinds. ".repeat(40);
        assert!(is_unfinished(&format!("{page}\nstatus: running")));
        assert!(is_unfinished(&format!("status: running\n{page}")));
        assert!(!is_unfinished(&format!("{page}\nstatus: running\n{page}")));
        assert_eq!(ends_of(&"é".repeat(801)).chars().count(), 801);
    }
}

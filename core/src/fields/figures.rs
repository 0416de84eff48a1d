//! The progress that an agent's author recorded on a span, and the tokens of a response.

use super::names::Field;
use super::payloads::parsed;
use super::plain::{canonical_object, number};
use super::seen::Seen;
use super::table_rows::Whole;
use crate::wire::value::{Map, Value};

// A task cannot have more tests, files or lines, and a response not more tokens.
const COUNT_MAX: f64 = 1e9;
const PERCENT_MAX: f64 = 100.0;
const METRIC_PREFIX: &str = "looptrace.metric.";
const MARKERS: [Field; 3] = [
    Field::FilesCreated,
    Field::DependenciesAdded,
    Field::CodeWritten,
];

/// The progress that an agent's author recorded on a span.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// How many tests failed.
    pub tests_failed: Option<i64>,
    /// How many ran.
    pub tests_total: Option<i64>,
    /// Percent covered.
    pub coverage: Option<f64>,
    /// The sum of files created, dependencies added and code written.
    pub markers: Option<i64>,
    /// The author's own, as a JSON object of numbers.
    pub metrics: Option<String>,
}

impl Figures {
    /// Whether the span says anything about progress.
    #[must_use]
    pub fn known(&self) -> bool {
        self != &Self::default()
    }
}

/// Read recorded progress; a value that is no number, or an impossible one, is unknown.
#[must_use]
pub fn figures_of(seen: &Seen<'_>, dialect: Option<usize>) -> Figures {
    let read = |field, greatest| number_in(seen, field, dialect, greatest);
    #[allow(clippy::cast_possible_truncation)]
    let count = |field| read(field, COUNT_MAX).map(|number| number as i64);
    let mut metrics = Map::default();
    for (name, value) in seen.others() {
        if let Some(name) = name.strip_prefix(METRIC_PREFIX)
            && let Some(number) = number(value).filter(|number| number.is_finite())
        {
            metrics.put(name.into(), Value::Float(number));
        }
    }
    Figures {
        tests_failed: count(Field::TestsFailed),
        tests_total: count(Field::TestsTotal),
        coverage: read(Field::Coverage, PERCENT_MAX),
        markers: MARKERS
            .into_iter()
            .filter_map(count)
            .reduce(|sum, more| sum + more),
        metrics: (!metrics.fields().is_empty()).then(|| canonical_object(&metrics)),
    }
}

/// A number between 0 and `greatest`; true counts as one, a list as its length.
fn number_in(seen: &Seen<'_>, field: Field, dialect: Option<usize>, greatest: f64) -> Option<f64> {
    let value = seen.value(field, dialect)?;
    let found = match &*parsed(&value) {
        #[allow(clippy::cast_precision_loss)]
        Value::List(items) => Some(items.len() as f64),
        other => number(other),
    };
    found.filter(|number| (0.0..=greatest).contains(number))
}

/// The tokens of a response; parts of what is unknown are unknown, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tokens {
    /// All that the model read.
    pub input: Option<i64>,
    /// All that it wrote.
    pub output: Option<i64>,
    /// What of the input was in a cache.
    pub cached: Option<i64>,
    /// What of the input was put into one.
    pub cache_write: Option<i64>,
    /// What of the output was thought.
    pub reasoning: Option<i64>,
    /// What lies between a run's usage and the sum of its responses.
    pub differing: Option<i64>,
    /// Whether they are those of the run so far, with the responses before.
    pub so_far: bool,
}

impl Tokens {
    /// Add those of another report of the response, where it knows more parts.
    pub fn add(&mut self, others: &Self) {
        let input = |of: &Self| known([of.input, of.cached, of.cache_write]);
        if input(others) > input(self) {
            self.input = others.input;
            self.cached = others.cached;
            self.cache_write = others.cache_write;
        }
        if known([others.output, others.reasoning]) > known([self.output, self.reasoning]) {
            (self.output, self.reasoning) = (others.output, others.reasoning);
        }
    }
}

fn known<const N: usize>(counts: [Option<i64>; N]) -> usize {
    counts.iter().flatten().count()
}

/// The tokens of a response. Those of agents repeat the sum of their models'.
///
/// Some producers count what was cached beside the rest of the input, or what was thought beside
/// the rest of the output. The table says which do; others show it, by a part that is larger than
/// the whole, or by a total with room for the parts.
#[must_use]
pub fn tokens_of(seen: &Seen<'_>, dialect: Option<usize>, name: &str, scope: &str) -> Tokens {
    let count = |field| count_in(seen, field, dialect);
    let counted = Tokens {
        input: count(Field::InputTokens),
        output: count(Field::OutputTokens),
        cached: count(Field::CachedTokens),
        cache_write: count(Field::CacheWriteTokens),
        reasoning: count(Field::ReasoningTokens),
        differing: count(Field::DifferingTokens),
        so_far: {
            let mut rows = seen.table.so_far.iter();
            rows.any(|row| row.is_named(name, scope) && seen.fits(row))
        },
    };
    let parts = [
        Field::CachedTokens,
        Field::CacheWriteTokens,
        Field::ReasoningTokens,
    ];
    if !parts.into_iter().any(|field| seen.has(field, dialect)) {
        return counted;
    }
    let rows = seen.table.beside.iter();
    let beside = rows.filter(|row| row.is_named(name, scope) && seen.fits(row));
    whole(
        counted,
        count(Field::TotalTokens),
        &beside.map(|row| row.kind).collect::<Vec<_>>(),
    )
}

/// Tokens whose input and output have all parts in them.
fn whole(counted: Tokens, total: Option<i64>, beside: &[Whole]) -> Tokens {
    let mut tokens = counted;
    let of_input = counted.cached.unwrap_or(0) + counted.cache_write.unwrap_or(0);
    let of_output = counted.reasoning.unwrap_or(0);
    let known = counted.input.unwrap_or(0) + counted.output.unwrap_or(0);
    let rest = total.map_or(0, |total| total - known);
    // The total has room for both, or for one of them.
    let for_input = rest == of_input + of_output || rest == of_input;
    let for_output = rest == of_input + of_output || (rest == of_output && !for_input);
    match counted.input {
        None => (tokens.cached, tokens.cache_write) = (None, None),
        Some(input) if beside.contains(&Whole::Input) || for_input || of_input > input => {
            tokens.input = Some(input + of_input);
        }
        Some(_) => {}
    }
    match counted.output {
        None => tokens.reasoning = None,
        Some(output) if beside.contains(&Whole::Output) || for_output || of_output > output => {
            tokens.output = Some(output + of_output);
        }
        Some(_) => {}
    }
    tokens
}

#[allow(clippy::cast_possible_truncation)]
fn count_in(seen: &Seen<'_>, field: Field, dialect: Option<usize>) -> Option<i64> {
    let value = seen.value(field, dialect)?;
    let found = match &*parsed(&value) {
        Value::Bool(_) => None,
        other => number(other),
    };
    found
        .filter(|number| (0.0..=COUNT_MAX).contains(number))
        .map(|number| number as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(input: i64, output: i64, cached: i64, thought: i64) -> Tokens {
        let [input, output, cached, reasoning] = [input, output, cached, thought].map(Some);
        Tokens {
            input,
            output,
            cached,
            reasoning,
            ..Tokens::default()
        }
    }

    #[test]
    fn parts_beside_the_whole_are_added() {
        let counted = tokens(100, 50, 30, 20);
        let sums = |total, beside: &[Whole]| {
            let found = whole(counted, total, beside);
            (found.input, found.output)
        };
        assert_eq!(sums(None, &[]), (Some(100), Some(50)));
        assert_eq!(sums(None, &[Whole::Input]), (Some(130), Some(50)));
        assert_eq!(sums(Some(200), &[]), (Some(130), Some(70)));
        assert_eq!(sums(Some(180), &[]), (Some(130), Some(50)));
        assert_eq!(sums(Some(170), &[]), (Some(100), Some(70)));
        assert_eq!(whole(tokens(10, 50, 30, 0), None, &[]).input, Some(40));
        let unknown = Tokens {
            input: None,
            ..counted
        };
        assert_eq!(whole(unknown, None, &[]).cached, None);
    }
}

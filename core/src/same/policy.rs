//! The declarations of a team, compiled once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use regex::Regex;

use crate::patterns::Pattern;

/// Declarations about one tool; a key is at the top level, or a path with dots.
#[derive(Clone, Debug, Default)]
pub struct Tool {
    /// Arguments that do not count.
    pub volatile_keys: Vec<String>,
    /// The only arguments that count, if there are any.
    pub same_call: Vec<String>,
    /// Whether the tool is meant to be polled, so that its calls never repeat.
    pub polling: bool,
}

/// The keys in results with values that are not compared.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// All keys that are volatile in results.
    pub keys: BTreeSet<String>,
    /// Keys that count although they are volatile by default.
    pub telling_keys: BTreeSet<String>,
}

/// What a team declares to be the same, with all that is compiled from it.
#[derive(Clone, Debug)]
pub struct Sameness {
    /// Tools by their names.
    pub tools: BTreeMap<String, Tool>,
    /// A team's own masks of results and errors, in their order, with placeholders.
    pub masks: Vec<(Regex, String)>,
    /// The keys of results.
    pub results: Results,
    /// Fresh keys of results without and with counters of calls, as `masks::fresh` makes them.
    pub fresh: [OnceLock<[Pattern; 2]>; 2],
}

impl Sameness {
    /// Compile declarations.
    ///
    /// # Errors
    ///
    /// Where a pattern of a mask is refused.
    pub fn new(
        tools: BTreeMap<String, Tool>,
        declared: Vec<(String, String)>,
        results: Results,
    ) -> Result<Self, regex::Error> {
        let compile = |(pattern, name): (String, String)| Ok((Regex::new(&pattern)?, name));
        let masks = declared
            .into_iter()
            .map(compile)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            tools,
            masks,
            results,
            fresh: Default::default(),
        })
    }

    /// Whether a tool is declared as one that is polled.
    #[must_use]
    pub fn polls(&self, name: &str) -> bool {
        self.tools.get(name).is_some_and(|tool| tool.polling)
    }
}

//! The rows of the table of dialects.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::glob::{Glob, fits_any};
use super::plain::as_text;
use crate::wire::value::Value;

/// What a span is, as a table says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A call.
    Tool,
    /// A response.
    Model,
    /// A response, also where its producer writes nothing of an answer.
    Request,
    /// An agent's run.
    Agent,
    /// A call if no known span lies within it, else structure.
    Step,
    /// Known, and no turn by itself.
    Structure,
    /// Known, and no turn, whatever other dialects say.
    Frame,
    /// It only tells more about the call around it, whatever other dialects say.
    Part,
}

/// What a producer counts in another way: parts beside their whole, or responses with those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Whole {
    /// The input of a response.
    Input,
    /// The output of a response.
    Output,
    /// Both: what the responses of a run used before is counted in each.
    Run,
}

/// The conditions of a row, all of which must hold, and what a span is then.
#[derive(Clone, Debug)]
pub struct Row<K> {
    /// What it is.
    pub kind: K,
    /// The number of its dialect.
    pub dialect: usize,
    pub(super) slot: Option<usize>,
    pub(super) path: Vec<String>,
    pub(super) values: Vec<Glob>,
    pub(super) name: Vec<Glob>,
    pub(super) scope: Vec<Glob>,
    // The number of the attribute that must not be there.
    pub(super) lacks: Option<usize>,
    /// Whether a span around known ones is structure.
    pub lone: bool,
}

#[derive(Deserialize)]
pub(super) struct Document {
    pub(super) finish_reasons: BTreeMap<String, Vec<String>>,
    pub(super) dialects: Vec<Dialect>,
}

/// A dialect as a table has it; what only pages show is left out.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Dialect {
    pub(super) name: String,
    pub(super) kinds: Vec<Given<Kind>>,
    pub(super) beside: Vec<Given<Whole>>,
    pub(super) fields: BTreeMap<String, Listed>,
    pub(super) named_by_span: bool,
    pub(super) name_prefixes: Vec<String>,
    pub(super) name_suffixes: Vec<String>,
    pub(super) own_keys: bool,
    pub(super) common: bool,
    pub(super) nobody: Vec<Nobody>,
    pub(super) no_session: Vec<String>,
}

/// What stands for the name of an agent and is none.
#[derive(Clone, Debug, Deserialize)]
pub struct Nobody {
    /// What is written in its place.
    pub agent: String,
    /// The one scope that writes it, where other agents may be called so; empty for any.
    #[serde(default)]
    pub scope: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Given<K> {
    #[serde(alias = "of")]
    pub(super) kind: K,
    #[serde(default)]
    pub(super) key: String,
    #[serde(default)]
    pub(super) is: Listed,
    #[serde(default)]
    pub(super) name: Listed,
    #[serde(default)]
    pub(super) scope: Listed,
    #[serde(default)]
    pub(super) lacks: String,
    #[serde(default)]
    pub(super) lone: bool,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Listed {
    One(String),
    Many(Vec<String>),
}

impl Default for Listed {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl Listed {
    pub(super) fn texts(&self) -> &[String] {
        match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Many(texts) => texts,
        }
    }

    pub(super) fn globs(&self) -> Vec<Glob> {
        self.texts().iter().map(|text| Glob::new(text)).collect()
    }
}

impl<K> Row<K> {
    /// The number of the attribute that must be there.
    #[must_use]
    pub fn slot(&self) -> Option<usize> {
        self.slot
    }

    /// Whether the value is that of a part of the attribute.
    #[must_use]
    pub fn has_path(&self) -> bool {
        !self.path.is_empty()
    }

    /// Whether the conditions on the name and the scope of a span hold.
    #[must_use]
    pub fn is_named(&self, name: &str, scope: &str) -> bool {
        fits_any(&self.name, name) && fits_any(&self.scope, scope)
    }

    /// Whether the condition on the value of the attribute holds.
    ///
    /// `value` is parsed where the row has a path.
    #[must_use]
    pub fn fits(&self, value: &Value<'_>) -> bool {
        let mut value = value;
        for name in &self.path {
            match value {
                Value::Map(map) => match map.get(name) {
                    Some(inner) => value = inner,
                    None => return false,
                },
                _ => return false,
            }
        }
        match value {
            Value::None => false,
            Value::Text(text) if text.is_empty() => false,
            value => self.values.is_empty() || fits_any(&self.values, &as_text(value)),
        }
    }
}

//! What was read of conversations: each request repeats the one before, so most messages have just
//! been read.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use super::flat::Item;
use super::json::parse_rest;
use super::made_ids::MadeMessages;
use super::message::Message;
use super::messages::{add_items, messages_in_list, messages_of};
use super::parts::is_part;
use super::payloads::parsed;
use super::seen::{Found, Seen};
use crate::wire::value::Value;

// Conversation histories that are kept to see what was added. None of them is long.
const HISTORIES_KEPT: usize = 256;
const HISTORY_BYTES_MAX: usize = 1 << 18;

type Shared = Vec<Arc<Message>>;

/// The last histories of some conversations.
#[derive(Debug, Default)]
pub struct Histories {
    known: HashMap<String, History>,
    order: VecDeque<String>,
    hashes: RandomState,
}

/// The last history of a conversation.
#[derive(Debug, Default)]
struct History {
    // The text of a list without its closing bracket, and its messages.
    text: String,
    messages: Shared,
    // Of messages in flat keys: a hash of each, whether it may be a part, and what was read.
    flat: Vec<(u64, bool, Shared)>,
    made: MadeMessages,
}

/// The messages that a value holds, whatever their shape.
#[must_use]
pub fn read(seen: &Seen<'_>, found: &Found<'_>, role: &str) -> Shared {
    match found {
        Found::One(value) => shared(messages_of(value, role)),
        Found::Flat(items) => {
            let values: Vec<Value<'_>> = items.iter().map(|item| seen.built(item)).collect();
            shared(messages_in_list(&values, role))
        }
    }
}

fn shared(messages: Vec<Message>) -> Shared {
    messages.into_iter().map(Arc::new).collect()
}

impl Histories {
    /// The messages that a value holds. Of the history of a known conversation only the messages
    /// are read that were added since.
    pub fn read(&mut self, seen: &Seen<'_>, found: &Found<'_>, role: &str, name: &str) -> Shared {
        match found {
            Found::One(value) => match &**value {
                Value::Text(text) if text.starts_with('[') && text.len() <= HISTORY_BYTES_MAX => {
                    self.read_text(text, role, name)
                }
                value => shared(messages_of(value, role)),
            },
            Found::Flat(items) => self.read_flat(seen, items, role, name),
        }
    }

    /// The messages of a conversation as they became with ids.
    pub fn made(&mut self, name: &str) -> &mut MadeMessages {
        &mut self.history(name).made
    }

    fn history(&mut self, name: &str) -> &mut History {
        if !self.known.contains_key(name) {
            if self.known.len() >= HISTORIES_KEPT
                && let Some(oldest) = self.order.pop_front()
            {
                self.known.remove(&oldest);
            }
            self.order.push_back(name.to_owned());
        }
        self.known.entry(name.to_owned()).or_default()
    }

    fn read_text(&mut self, text: &str, role: &str, name: &str) -> Shared {
        let history = self.history(name);
        let begins = !history.text.is_empty() && text.starts_with(&history.text);
        if begins && let Some(added) = text[history.text.len()..].strip_prefix(',') {
            let items = parse_rest(added).filter(|items| !are_parts(items));
            let messages = items.map(|items| messages_in_list(&items, role));
            if let Some(messages) = messages.filter(|messages| !messages.is_empty()) {
                history.messages.extend(shared(messages));
                let messages = history.messages.clone();
                history.keep(text);
                return messages;
            }
        }
        let value = Value::Text(text.into());
        let read = parsed(&value);
        let messages = shared(messages_of(&read, role));
        match &*read {
            Value::List(items) if !are_parts(items) && !messages.is_empty() => {
                history.messages.clone_from(&messages);
                history.text.clear();
                history.keep(text);
            }
            _ => *history = History::default(),
        }
        messages
    }

    fn read_flat(&mut self, seen: &Seen<'_>, items: &[Item], role: &str, name: &str) -> Shared {
        let state = self.hashes.clone();
        let history = self.history(name);
        let known = std::mem::take(&mut history.flat);
        let (mut kept, mut bytes) = (Vec::with_capacity(items.len()), 0);
        for (place, item) in items.iter().enumerate() {
            let hash = hash_of(seen, item, role, &state, &mut bytes);
            let entry = match known
                .get(place)
                .filter(|(before, ..)| Some(*before) == hash)
            {
                Some(entry) => entry.clone(),
                None => {
                    let value = seen.built(item);
                    let mut messages = Vec::new();
                    add_items(&value, role, &mut messages);
                    (hash.unwrap_or_default(), is_part(&value), shared(messages))
                }
            };
            kept.push((entry, hash.is_some()));
        }
        if !kept.is_empty() && kept.iter().all(|((_, is_part, _), _)| *is_part) {
            return read(seen, &Found::Flat(items), role);
        }
        let messages = kept
            .iter()
            .flat_map(|((_, _, read), _)| read.iter().cloned())
            .collect();
        if bytes <= HISTORY_BYTES_MAX {
            let are_texts = kept.into_iter().take_while(|(_, has_hash)| *has_hash);
            history.flat = are_texts.map(|(entry, _)| entry).collect();
        }
        messages
    }
}

impl History {
    /// Keep a text without its closing bracket, which begins as the one that is known.
    fn keep(&mut self, text: &str) {
        match text.strip_suffix(']') {
            Some(open) => self.text.push_str(&open[self.text.len()..]),
            None => *self = Self::default(),
        }
    }
}

fn are_parts(items: &[Value<'_>]) -> bool {
    !items.is_empty() && items.iter().all(is_part)
}

/// A hash of a message in flat keys, if all its values are texts, because 1 and true are equal.
fn hash_of(
    seen: &Seen<'_>,
    item: &Item,
    role: &str,
    state: &RandomState,
    bytes: &mut usize,
) -> Option<u64> {
    let mut hasher = state.build_hasher();
    role.hash(&mut hasher);
    for (end, value) in seen.ends(item) {
        let Value::Text(text) = value else {
            return None;
        };
        *bytes += end.len() + text.len();
        (end, &**text).hash(&mut hasher);
    }
    Some(hasher.finish())
}

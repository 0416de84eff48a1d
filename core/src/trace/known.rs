//! The turns of a trace that were told, and what is new when it is made again.

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use foldhash::{HashMap, HashSet};

use super::turn::{Key, Kind, Turn};
use crate::fields::shared::name_in;
use crate::fields::span_fields::Name;

/// The content of a turn that is told again, whatever it is; a hash is hardly ever this.
const UNTOLD: u64 = 0;

/// A turn with news, and the task that it was in.
#[derive(Debug)]
pub struct New {
    /// As it is now.
    pub turn: Turn<'static>,
    /// The task in which it was told, if it was.
    pub before: Option<String>,
}

/// Turns of a trace that turn out to belong to another task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The trace.
    pub trace_id: String,
    /// The task in which they were told.
    pub before: String,
    /// The task to which they belong.
    pub after: String,
    /// The turns.
    pub keys: BTreeSet<Key>,
    /// The first of their ends.
    pub first_ns: i64,
    /// Whether these are all turns that the trace ever had in the task before.
    pub is_whole: bool,
}

/// A turn that was told: what it is, its task, a hash of all else, and whether it stays there.
#[derive(Debug)]
struct Told {
    span_id: Box<str>,
    call_id: Option<Box<str>>,
    kind: Kind,
    stays: bool,
    round: u32, // when it was last made
    task: Name,
    content: u64,
}

impl Told {
    fn is(&self, content: u64, task: &str) -> bool {
        self.content == content && (self.stays || *self.task == *task)
    }
}

/// The turns that were told of a trace, by hashes of their keys.
#[derive(Debug, Default)]
pub struct Known {
    trace_id: String,
    turns: HashMap<u64, Told>,
    tasks: HashSet<Name>,
    round: u32,
}

impl Known {
    /// Nothing is told of a trace yet.
    #[must_use]
    pub fn new(trace_id: &str) -> Self {
        Self {
            trace_id: trace_id.to_owned(),
            ..Self::default()
        }
    }

    /// Begin to look at the turns of the trace as they are now.
    pub fn begin(&mut self) {
        self.round = self.round.wrapping_add(1);
    }

    /// Whether a turn is told as it is.
    pub fn is_told(&mut self, key: u64, content: u64, task: &str) -> bool {
        let told = self.turns.get_mut(&key);
        let told = told.filter(|told| told.is(content, task));
        told.map(|told| told.round = self.round).is_some()
    }

    /// Learn the other turns: those with news, and if they are of all spans of the trace, those
    /// that are gone with their tasks. Where two turns have one key, the last one counts.
    pub fn learn(&mut self, turns: &[Turn<'_>], is_whole: bool) -> (Vec<New>, Vec<(String, Key)>) {
        let mut news = Vec::new();
        for turn in turns.iter().rev() {
            let (told, before) = match self.turns.entry(turn.key_hash()) {
                Entry::Occupied(entry) => {
                    let told = entry.into_mut();
                    let is_again = std::mem::replace(&mut told.round, self.round) == self.round;
                    if is_again || told.is(turn.content, &turn.task) {
                        continue;
                    }
                    let before = Name::clone(&told.task);
                    told.content = turn.content;
                    if !told.stays {
                        told.task = name_in(&mut self.tasks, &turn.task);
                    }
                    (&*told, Some(before.to_string()))
                }
                Entry::Vacant(entry) => {
                    let told = Told {
                        span_id: turn.span_id.as_ref().into(),
                        call_id: turn.call_id.as_deref().map(Into::into),
                        kind: turn.kind,
                        stays: false,
                        round: self.round,
                        task: name_in(&mut self.tasks, &turn.task),
                        content: turn.content,
                    };
                    (&*entry.insert(told), None)
                }
            };
            let turn = Turn {
                task: Cow::Owned(told.task.to_string()),
                ..turn.clone().into_owned()
            };
            news.push(New { turn, before });
        }
        let gone = if is_whole { self.gone() } else { Vec::new() };
        (news, gone)
    }

    fn gone(&mut self) -> Vec<(String, Key)> {
        let round = self.round;
        let lost = self.turns.extract_if(|_, told| told.round != round);
        let key = |told: &Told| {
            let call_id = told.call_id.as_deref().map(str::to_owned);
            (
                self.trace_id.clone(),
                told.span_id.to_string(),
                told.kind,
                call_id,
            )
        };
        lost.map(|(_, told)| (told.task.to_string(), key(&told)))
            .collect()
    }

    /// The moves among turns with news. `is_cut` says that the trace has lost spans.
    #[must_use]
    pub fn moves(&self, news: &[New], is_cut: bool) -> Vec<Move> {
        let mut moved: BTreeMap<(&str, &str), Vec<&New>> = BTreeMap::new();
        for each in news {
            if let Some(before) = each
                .before
                .as_deref()
                .filter(|task| *task != each.turn.task)
            {
                moved
                    .entry((before, &each.turn.task))
                    .or_default()
                    .push(each);
            }
        }
        if moved.is_empty() {
            return Vec::new();
        }
        let left: HashSet<&str> = self.turns.values().map(|told| &*told.task).collect();
        let as_move = |((before, after), members): ((&str, &str), Vec<&New>)| Move {
            trace_id: members[0].turn.trace_id.to_string(),
            before: before.to_owned(),
            after: after.to_owned(),
            keys: members.iter().map(|each| each.turn.key()).collect(),
            first_ns: members
                .iter()
                .map(|each| each.turn.end_ns)
                .min()
                .unwrap_or_default(),
            is_whole: !is_cut && !left.contains(before),
        };
        moved.into_iter().map(as_move).collect()
    }

    /// Keep the turns of a move in the task that they have been in.
    pub fn stay(&mut self, news: &mut [New], moved: &Move) {
        for each in news {
            if !moved.keys.contains(&each.turn.key()) {
                continue;
            }
            each.turn.task = moved.before.clone().into();
            if let Some(told) = self.turns.get_mut(&each.turn.key_hash()) {
                told.task = name_in(&mut self.tasks, &moved.before);
                told.stays = true;
            }
        }
    }

    /// Tell all turns again the next time.
    pub fn again(&mut self) {
        self.turns
            .values_mut()
            .for_each(|told| told.content = UNTOLD);
    }

    /// Forget the turns of spans: they stay as they were told.
    pub fn forget(&mut self, spans: &HashSet<String>) {
        self.turns.retain(|_, told| !spans.contains(&*told.span_id));
    }
}

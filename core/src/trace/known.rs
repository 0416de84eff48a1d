//! The turns of a trace that were told, and what is new when it is made again.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::{HashMap, HashSet};

use super::turn::{Key, Turn};

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

/// A turn that was told: its task, a hash of all else, and whether it stays in that task.
#[derive(Debug)]
struct Told {
    key: Key,
    task: String,
    content: u64,
    stays: bool,
    round: u64, // when it was last made
}

/// The turns that were told of a trace, by hashes of their keys.
#[derive(Debug, Default)]
pub struct Known {
    turns: HashMap<u64, Told>,
    round: u64,
}

impl Known {
    /// Learn the turns as they are now: those with news, and those that are gone with their tasks.
    /// Where two turns have one key, the last one counts.
    pub fn learn(&mut self, turns: Vec<Turn<'_>>) -> (Vec<New>, Vec<(String, Key)>) {
        self.round += 1;
        let hashes: Vec<u64> = turns.iter().map(Turn::key_hash).collect();
        let rows: HashMap<u64, usize> = hashes
            .iter()
            .enumerate()
            .map(|(row, hash)| (*hash, row))
            .collect();
        let mut news = Vec::new();
        for (row, mut turn) in turns.into_iter().enumerate() {
            if rows[&hashes[row]] != row {
                continue;
            }
            let mut before = None;
            if let Some(told) = self.turns.get_mut(&hashes[row]) {
                told.round = self.round;
                if told.stays {
                    turn.task = told.task.clone().into();
                }
                if told.content == turn.content && told.task == turn.task {
                    continue;
                }
                told.content = turn.content;
                before = Some(std::mem::replace(
                    &mut told.task,
                    turn.task.clone().into_owned(),
                ));
            } else {
                let told = Told {
                    key: turn.key(),
                    task: turn.task.clone().into_owned(),
                    content: turn.content,
                    stays: false,
                    round: self.round,
                };
                self.turns.insert(hashes[row], told);
            }
            news.push(New {
                turn: turn.into_owned(),
                before,
            });
        }
        (news, self.gone())
    }

    fn gone(&mut self) -> Vec<(String, Key)> {
        let round = self.round;
        let lost = self.turns.extract_if(|_, told| told.round != round);
        lost.map(|(_, told)| (told.task, told.key)).collect()
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
                told.task.clone_from(&moved.before);
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
        self.turns.retain(|_, told| !spans.contains(&told.key.1));
    }
}

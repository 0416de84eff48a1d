//! Spans in as they arrive; turns out that are new, changed or gone.
//!
//! A span makes turns only together with the other spans of its trace. The buffer holds these while
//! the trace is at work, makes the turns of the trace again, and tells of those that differ from
//! what it has told. The turns of another trace are made again if the span changes them: by a
//! result, a session, or the parent of a task.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::{HashMap, HashMapExt};

use super::bounded::Bounded;
use super::draft::{Draft, Taught};
use super::known::{Known, Move, New};
use super::live_trace::LiveTrace;
use super::sessions::Sessions;
use super::span::Span;
use super::tail::Tail;
use super::ties::Ties;
use super::turn::{Key, Turn};
use super::turns::{Made, turns_of};
use super::understanding::{Understood, understood_of};

/// Spans of traces whose turns are all told again at once, because turns of them came too late.
const AGAIN_SPANS_MAX: usize = 5_000;
// Traces and sessions that are remembered together with how they belong together.
const SESSIONS_MAX: usize = 100_000;
// Characters of results that are remembered for all sessions. A call is answered in a few turns.
const RESULTS_CHARS_MAX: usize = 16 << 20;
// Traces of a session that wait for results.
const TRACES_WAITING_MAX: usize = 100;

/// What spans brought.
#[derive(Debug, Default)]
pub struct News {
    /// Turns that are new or have changed, neither ordered nor numbered.
    pub turns: Vec<Turn<'static>>,
    /// Turns that a task no longer has.
    pub gone: Vec<(String, Key)>,
    /// Turns that went to another task; they are in `turns` and in `gone`.
    pub moves: Vec<Move>,
}

/// Decides for each move whether it may be made. If not, its turns stay where they are.
pub type Consent<'c> = &'c mut dyn FnMut(&[Move]) -> Vec<bool>;

/// The news of the turns of each trace.
type NewsOf = BTreeMap<String, BTreeMap<Key, New>>;

/// The traces at work and their turns that were told.
pub struct Buffer {
    /// How traces and tasks belong together.
    pub ties: Ties,
    /// Traces that went to make room for others.
    pub dropped: usize,
    sessions: Sessions,
    waiting: Bounded<String, Bounded<String, ()>>,
    traces: HashMap<String, LiveTrace>,
    tails: HashMap<String, Tail>, // of traces that get one span at a time
    #[cfg(test)]
    pub(super) followed: usize,
    known: HashMap<String, Known>, // the turns of each trace
    by_touch: BTreeMap<u64, String>,
    next: u64,
    chars: usize,
    chars_max: usize,
    understood: HashMap<String, Understood>,
    past: Understood,
    grown: BTreeSet<String>,
}

impl Buffer {
    /// An empty buffer; `join_services` says that services share the ids of their sessions.
    #[must_use]
    pub fn new(join_services: bool, chars_max: usize) -> Self {
        Self {
            ties: Ties::new(join_services, SESSIONS_MAX),
            dropped: 0,
            sessions: Sessions::new(SESSIONS_MAX, RESULTS_CHARS_MAX),
            waiting: Bounded::new(SESSIONS_MAX),
            traces: HashMap::new(),
            tails: HashMap::new(),
            #[cfg(test)]
            followed: 0,
            known: HashMap::new(),
            by_touch: BTreeMap::new(),
            next: 0,
            chars: 0,
            chars_max,
            understood: HashMap::new(),
            past: Understood::default(),
            grown: BTreeSet::new(),
        }
    }

    /// Take spans that ended. Those `above` are still open, and only give what others inherit.
    pub fn take(&mut self, spans: Vec<Span>, above: Vec<Span>, may_move: Consent<'_>) -> News {
        let mut came: BTreeSet<String> = BTreeSet::new();
        let mut changed: BTreeSet<String> = BTreeSet::new();
        let mut news = NewsOf::new();
        for span in spans {
            let name = span.fields.trace_id.to_string();
            changed.extend(self.ties.learn(&span.fields));
            let place = self.hold(span);
            let follows = place.filter(|_| !changed.contains(&name));
            if !follows.is_some_and(|at| self.follow(&name, at, &mut news, &mut changed)) {
                changed.insert(name.clone());
            }
            came.insert(name);
        }
        for span in above {
            let Some(name) = came.get(&*span.fields.trace_id) else {
                continue;
            };
            changed.extend(self.ties.learn(&span.fields));
            if self
                .traces
                .get_mut(name)
                .is_some_and(|trace| trace.open(span))
            {
                changed.insert(name.clone());
            }
        }
        self.grown.extend(came);
        changed.retain(|name| self.traces.contains_key(name));
        let news = self.news(changed, false, news, may_move);
        self.make_room();
        news
    }

    /// Return the turns that waited for spans that will no longer come.
    pub fn rest(&mut self, may_move: Consent<'_>) -> News {
        let every = self.traces.keys().cloned().collect();
        self.news(every, true, NewsOf::new(), may_move)
    }

    /// Return the turns of held traces as if all of them were news.
    pub fn again(&mut self, names: &[String], may_move: Consent<'_>) -> News {
        for name in names {
            if let Some(known) = self.known.get_mut(name) {
                known.again();
            }
        }
        let names = names.iter().cloned().collect();
        self.news(names, false, NewsOf::new(), may_move)
    }

    /// Whether all spans of these traces are held, and are few enough to tell again.
    #[must_use]
    pub fn holds(&self, names: &[String]) -> bool {
        let mut spans = 0;
        let is_whole = names.iter().all(|name| {
            let trace = self.traces.get(name).filter(|trace| !trace.is_cut);
            spans += trace.map_or(0, LiveTrace::len);
            trace.is_some()
        });
        is_whole && spans <= AGAIN_SPANS_MAX
    }

    /// Learn the names of sessions that several services share, by their other names.
    pub fn join(&mut self, names: impl IntoIterator<Item = (String, String)>) {
        self.tails.clear();
        self.ties.join(names);
    }

    /// How many traces are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.traces.len()
    }

    /// Whether none is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.traces.is_empty()
    }

    /// How much of the spans was understood, of those so far.
    pub fn understood(&mut self) -> Understood {
        for name in std::mem::take(&mut self.grown) {
            self.understand(&name);
        }
        let mut total = self.past.clone();
        self.understood.values().for_each(|part| total.add(part));
        total
    }

    fn understand(&mut self, name: &str) {
        if let Some(trace) = self.traces.get(name) {
            let (ended, above) = (trace.ended(), trace.above());
            let draft = Draft::new(&ended, &above, &self.ties);
            let made = turns_of(&draft, &self.sessions, false, &mut |_, _, _| false);
            let understood = understood_of(&draft, &made);
            self.understood.insert(name.to_owned(), understood);
        }
    }

    /// Hold a span; returns its place if it is new and no other was lost.
    fn hold(&mut self, span: Span) -> Option<usize> {
        let name = span.fields.trace_id.to_string();
        let trace = self.traces.entry(name.clone()).or_default();
        self.by_touch.remove(&trace.touched);
        self.next += 1;
        trace.touched = self.next;
        self.by_touch.insert(self.next, name.clone());
        self.chars -= trace.chars;
        trace.came += 1;
        let (lost, place) = trace.hold(span);
        self.chars += trace.chars;
        if let Some(known) = self.known.get_mut(&name).filter(|_| !lost.is_empty()) {
            known.forget(&lost);
        }
        place
    }

    /// Make the turns of a new span alone; returns whether that is all that it changes in its trace.
    /// Other traces that it has `changed` are added.
    fn follow(
        &mut self,
        name: &str,
        place: usize,
        news: &mut NewsOf,
        changed: &mut BTreeSet<String>,
    ) -> bool {
        let Self {
            traces,
            tails,
            known,
            ties,
            sessions,
            ..
        } = self;
        let parts = (traces.get(name), tails.get_mut(name), known.get_mut(name));
        let (Some(trace), Some(tail), Some(known)) = parts else {
            return false;
        };
        let (span, user) = (trace.at(place), tail.user.clone());
        if trace.has_same_times(place) {
            return false;
        }
        let Some(draft) = tail.part(span, user.as_deref(), trace, ties, sessions) else {
            return false;
        };
        let taught = draft.teach(sessions);
        let mut made = made_of(&draft, sessions, false, known);
        if !tail.take(span, &draft, &mut made) {
            return false;
        }
        #[cfg(test)]
        {
            self.followed += 1;
        }
        let (new, _) = known.learn(&made.turns, false);
        let mut waits_in = trace.waits_in.clone();
        waits_in.extend(made.waits_in.into_iter().map(str::to_owned));
        keep_latest(news.entry(name.to_owned()).or_default(), new, &[]);
        self.note_waiting(name, waits_in);
        let others = self.waiting_for(&taught.sessions).chain(&taught.traces);
        changed.extend(others.filter(|other| *other != name).cloned());
        true
    }

    /// The traces that wait for results in these sessions.
    fn waiting_for(&self, sessions: &BTreeSet<String>) -> impl Iterator<Item = &String> {
        let waiting = sessions
            .iter()
            .filter_map(|session| self.waiting.get(session));
        waiting.flat_map(Bounded::keys)
    }

    /// The news where all traces are looked at again as wholes.
    #[cfg(test)]
    pub(super) fn looked_again(&mut self) -> News {
        let tails = std::mem::take(&mut self.tails);
        let names = self.traces.keys().cloned().collect();
        let news = self.news(names, false, NewsOf::new(), &mut |moves| {
            vec![true; moves.len()]
        });
        self.tails = tails;
        news
    }

    /// The news of these traces' turns, and of other traces that learn from them.
    fn news(
        &mut self,
        names: BTreeSet<String>,
        ended: bool,
        mut news: NewsOf,
        may_move: Consent<'_>,
    ) -> News {
        let mut told = News::default();
        let mut waiting = names;
        while !waiting.is_empty() {
            waiting = self.round(&waiting, ended, &mut news, &mut told.gone);
        }
        let mut lists: BTreeMap<String, Vec<New>> = news
            .into_iter()
            .map(|(name, found)| (name, found.into_values().collect()))
            .collect();
        self.moved(&mut lists, &mut told, may_move);
        told.turns
            .extend(lists.into_values().flatten().map(|each| each.turn));
        told
    }

    /// Make traces again; returns those that must be made again because of it.
    fn round(
        &mut self,
        names: &BTreeSet<String>,
        ended: bool,
        news: &mut NewsOf,
        gone: &mut Vec<(String, Key)>,
    ) -> BTreeSet<String> {
        let Self {
            traces,
            ties,
            sessions,
            known,
            tails,
            ..
        } = self;
        let mut taught = Taught::default();
        let mut waiting = Vec::new();
        let held = names
            .iter()
            .filter_map(|name| Some((name, traces.get(name)?)));
        let held: Vec<_> = held
            .map(|(name, trace)| (name, trace.ended(), trace.above()))
            .collect();
        let drafts: Vec<(&String, Draft<'_>)> = held
            .iter()
            .map(|(name, on, above)| (*name, Draft::new(on, above, ties)))
            .collect();
        for (_, draft) in &drafts {
            let more = draft.teach(sessions);
            taught.sessions.extend(more.sessions);
            taught.traces.extend(more.traces);
        }
        for (name, draft) in &drafts {
            let known = known
                .entry((*name).clone())
                .or_insert_with(|| Known::new(name));
            let made = made_of(draft, sessions, ended, known);
            let (new, lost) = known.learn(&made.turns, true);
            tails.remove(*name);
            if !ended && traces.get(*name).is_some_and(|trace| trace.came == 1) {
                let tail = Tail::of(draft, &made);
                tails.extend(tail.map(|tail| ((*name).clone(), tail)));
            }
            let named = made.waits_in.into_iter().map(str::to_owned).collect();
            waiting.push((*name, named));
            if !(new.is_empty() && lost.is_empty()) {
                keep_latest(news.entry((*name).clone()).or_default(), new, &lost);
                gone.extend(lost);
            }
        }
        self.grown.extend(names.iter().cloned());
        for (name, named) in waiting {
            self.note_waiting(name, named);
        }
        let answered = self.waiting_for(&taught.sessions);
        let next = taught.traces.iter().chain(answered);
        next.filter(|name| !names.contains(*name) && self.traces.contains_key(*name))
            .cloned()
            .collect()
    }

    /// Note in which sessions a trace has calls without a result.
    fn note_waiting(&mut self, name: &str, named: BTreeSet<String>) {
        let Some(trace) = self.traces.get_mut(name) else {
            return;
        };
        trace.came = 0;
        if trace.waits_in == named {
            return;
        }
        let before = std::mem::replace(&mut trace.waits_in, named.clone());
        self.leave(name, &before);
        for session in named {
            let traces = || Bounded::new(TRACES_WAITING_MAX);
            let traces = self.waiting.or_set(&*session, traces);
            traces.set(name.to_owned(), ());
        }
    }

    fn leave(&mut self, name: &str, sessions: &BTreeSet<String>) {
        for session in sessions {
            if let Some(traces) = self.waiting.get_mut(session) {
                traces.remove(name);
                if traces.is_empty() {
                    self.waiting.remove(session);
                }
            }
        }
    }

    /// Ask which moves may be made; the turns of all others stay in their tasks.
    fn moved(
        &mut self,
        lists: &mut BTreeMap<String, Vec<New>>,
        told: &mut News,
        may_move: Consent<'_>,
    ) {
        let mut moves = Vec::new();
        for (name, news) in &*lists {
            let is_cut = self.traces.get(name).is_some_and(|trace| trace.is_cut);
            moves.extend(
                self.known
                    .get(name)
                    .into_iter()
                    .flat_map(|k| k.moves(news, is_cut)),
            );
        }
        let may = if moves.is_empty() {
            Vec::new()
        } else {
            may_move(&moves)
        };
        for (moved, may) in moves.into_iter().zip(may) {
            if may {
                told.gone.extend(
                    moved
                        .keys
                        .iter()
                        .map(|key| (moved.before.clone(), key.clone())),
                );
                told.moves.push(moved);
            } else if let (Some(known), Some(news)) = (
                self.known.get_mut(&moved.trace_id),
                lists.get_mut(&moved.trace_id),
            ) {
                known.stay(news, &moved);
            }
        }
    }

    /// Drop the traces that were touched longest ago; the last one stays.
    fn make_room(&mut self) {
        while self.chars > self.chars_max && self.traces.len() > 1 {
            let Some((_, name)) = self.by_touch.pop_first() else {
                return;
            };
            if self.grown.remove(&name) {
                self.understand(&name);
            }
            if let Some(understood) = self.understood.remove(&name) {
                self.past.add(&understood);
            }
            if let Some(trace) = self.traces.remove(&name) {
                self.leave(&name, &trace.waits_in);
                self.chars -= trace.chars;
            }
            self.tails.remove(&name);
            self.known.remove(&name);
            self.dropped += 1;
            self.sessions.forget_trace(&name);
        }
    }
}

/// Make the turns of a draft that are not told as they are.
fn made_of<'t>(
    draft: &'t Draft<'t>,
    sessions: &'t Sessions,
    ended: bool,
    known: &mut Known,
) -> Made<'t> {
    known.begin();
    turns_of(draft, sessions, ended, &mut |key, content, task| {
        known.is_told(key, content, task)
    })
}

/// Keep the last news of each turn that is not gone, with what was known before all news.
fn keep_latest(latest: &mut BTreeMap<Key, New>, new: Vec<New>, lost: &[(String, Key)]) {
    for each in new {
        let key = each.turn.key();
        let before = latest
            .remove(&key)
            .map_or(each.before, |earlier| earlier.before);
        latest.insert(
            key,
            New {
                turn: each.turn,
                before,
            },
        );
    }
    for (_, key) in lost {
        latest.remove(key);
    }
}

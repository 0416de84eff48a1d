//! The turns of one task in their order, counted again from the settled ones where one moves.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::block::Block;
use super::needs::Needs;
use super::numbers::{Column, pack, unpack};
use super::values::Names;
use super::waiting::{Order, Waiting, keep, kept};
use crate::count::codes::UNKNOWN;
use crate::count::how::Counting;
use crate::count::marks::Marked;
use crate::count::row::{Row, Words};
use crate::count::task::Task;

// A turn that comes late is likely to come not much before the last late one. So far before that
// the counts are copied, if more turns would be counted again.
const BEFORE_LATE: usize = 64;

/// How turns are counted, which rules are asked, and how much is held.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Watch {
    pub counting: Counting,
    pub needs: Needs,
    pub failed: Column,
    pub epoch: Column,
    pub resets_seen: Column,
    /// Turns that end so long before the newest are settled.
    pub horizon_ns: i64,
    /// A call of a step that ends so long after the first stands at its own end.
    pub spread_ns: i64,
    /// A turn or a pause that takes so long is long.
    pub long_ns: i64,
    /// With more turns that may move, the oldest are settled sooner.
    pub waiting_max: usize,
    /// Settled steps whose late calls are recognised.
    pub steps_max: usize,
    /// Failures that a gate shows.
    pub failures_max: usize,
    /// With turns of more traces, the others are not noted.
    pub traces_max: usize,
    /// Turns are settled so many at a time.
    pub settled_at_once: usize,
}

/// A turn that comes.
#[derive(Clone, Debug)]
pub struct New {
    /// Its id and times.
    pub at: Waiting,
    /// `key_of` it.
    pub key: Vec<u8>,
    /// As it was coded and marked.
    pub marked: Marked,
    /// What loops keep of it.
    pub evidence: Vec<u8>,
}

/// The turns that are held of one task.
#[derive(Clone, Debug)]
pub struct Turns {
    /// How many of them are settled; these come first.
    pub settled: usize,
    /// The texts that come again in what is held.
    pub names: Names,
    /// What was counted, and what loops keep, of each in order.
    pub(super) numbers: Block,
    pub(super) evidence: Block,
    /// Those that may move.
    pub(super) waiting: Vec<Waiting>,
    pub(super) keys: Block,
    pub(super) marked: Block,
    /// Counts after all turns, after the settled ones, and after some that may move.
    pub(super) counts: Task,
    pub(super) settled_counts: Task,
    pub(super) between: Option<Box<(usize, Task)>>,
    /// Steps with settled turns, the last ones.
    pub(super) steps: VecDeque<i64>,
    /// Whether a step has such turns and others that may move since the last turn came.
    pub(super) parts: bool,
    pub(super) newest_ns: i64,
    pub(super) crowded_ns: i64,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            settled: 0,
            names: Names::default(),
            numbers: Block::default(),
            evidence: Block::default(),
            waiting: Vec::new(),
            keys: Block::default(),
            marked: Block::default(),
            counts: Task::default(),
            settled_counts: Task::default(),
            between: None,
            steps: VecDeque::new(),
            parts: false,
            newest_ns: i64::MIN,
            crowded_ns: i64::MIN,
        }
    }
}

impl Turns {
    /// How many turns are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether none is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// The numbers of a turn.
    #[must_use]
    pub fn words(&self, at: usize) -> Words {
        unpack(&mut self.numbers.at(at))
    }

    /// The numbers of a turn, and the phase before it.
    #[must_use]
    pub fn row(&self, at: usize) -> Row {
        let mut rest = self.numbers.at(at);
        let mut row = Row::of(&unpack(&mut rest));
        row.phase_before_text = self.names.shared(&mut rest);
        row
    }

    /// What loops keep of a turn.
    #[must_use]
    pub fn evidence(&self, at: usize) -> &[u8] {
        self.evidence.at(at)
    }

    /// The turns that may move.
    #[must_use]
    pub fn waiting(&self) -> &[Waiting] {
        &self.waiting
    }

    /// The time before which turns that end come too late.
    #[must_use]
    pub fn settled_ns(&self, watch: &Watch) -> i64 {
        let since_ns = self.newest_ns.saturating_sub(watch.horizon_ns);
        since_ns.max(self.crowded_ns)
    }

    /// Note the end of a turn, in time or not.
    pub fn note(&mut self, end_ns: i64) {
        self.newest_ns = self.newest_ns.max(end_ns);
    }

    /// Whether a turn is held and may move.
    #[must_use]
    pub fn may_move(&self, id: i64) -> bool {
        self.waiting.iter().any(|one| one.id == id)
    }

    /// Take new turns, which may move, and drop those that are gone; count what follows.
    ///
    /// Return the place of the first turn that is not as it was, among those that may move. If a
    /// turn comes twice, the later one knows more.
    pub fn take(&mut self, mut new: Vec<New>, gone: &[i64], watch: &Watch) -> usize {
        let counted = self.waiting.len();
        let mut seen: BTreeSet<i64> = gone.iter().copied().collect();
        if new.len() > 1 {
            new.reverse();
            new.retain(|one| seen.insert(one.at.id));
            new.reverse();
        } else {
            seen.extend(new.iter().map(|one| one.at.id));
        }
        let goes_on = self.goes_on(&mut new, &seen, watch.spread_ns);
        let begin = if goes_on {
            counted
        } else {
            self.reorder(&mut new, &seen, watch)
        };
        for one in new {
            self.push(&one);
            let mut marked = one.marked;
            (marked.order_ns, marked.step) = (one.at.order_ns, one.at.step);
            self.add(marked, true, watch);
        }
        let over = self.waiting.len().saturating_sub(watch.waiting_max);
        if over > 0 {
            self.crowded_ns = self.crowded_ns.max(self.waiting[over].end_ns);
        }
        begin
    }

    /// Place turns after those that are there; return whether all of them come there.
    fn goes_on(&mut self, new: &mut [New], seen: &BTreeSet<i64>, spread_ns: i64) -> bool {
        if self.parts || self.waiting.iter().any(|one| seen.contains(&one.id)) {
            return false;
        }
        self.part_steps(new);
        let mut first_ns = firsts(new.iter().map(|one| &one.at));
        if !first_ns.is_empty() {
            let shared = |one: &&Waiting| first_ns.contains_key(&one.step);
            let before = firsts(self.waiting.iter().filter(shared));
            if before.iter().any(|(step, first)| first_ns[step] < *first) {
                return false;
            }
            first_ns.extend(before);
        }
        for one in new.iter_mut() {
            one.at.place(first_ns.get(&one.at.step).copied(), spread_ns);
        }
        new.sort_by(|a, b| order_of(a).cmp(&order_of(b)));
        let last = self.waiting.last().zip(self.keys.last());
        let follow = last.zip(new.first());
        if follow.is_some_and(|((at, key), one)| at.order(key) > order_of(one)) {
            return false;
        }
        true
    }

    /// Let turns stand apart from a step of which turns are settled.
    fn part_steps(&mut self, new: &mut [New]) {
        let steps = &self.steps;
        let every = self.waiting.iter_mut().filter(|_| self.parts);
        for one in every.chain(new.iter_mut().map(|one| &mut one.at)) {
            if one.step != UNKNOWN && steps.contains(&one.step) {
                one.step = UNKNOWN;
            }
        }
        self.parts = false;
    }

    fn push(&mut self, one: &New) {
        self.waiting
            .reserve_exact(usize::from(self.waiting.len() == self.waiting.capacity()) * 8);
        self.waiting.push(one.at);
        self.keys.push(&one.key);
        let names = &mut self.names;
        self.marked.write(|bytes| keep(&one.marked, names, bytes));
        self.evidence.push(&one.evidence);
    }

    /// Put new turns among those that may move; return the first place that changes.
    fn reorder(&mut self, new: &mut Vec<New>, seen: &BTreeSet<i64>, watch: &Watch) -> usize {
        self.part_steps(new);
        let before = self.waiting.len();
        for one in new.drain(..) {
            self.push(&one);
        }
        let goes = |at: usize| at < before && seen.contains(&self.waiting[at].id);
        let mut order: Vec<usize> = (0..self.waiting.len()).filter(|at| !goes(*at)).collect();
        let first_ns = firsts(order.iter().map(|at| &self.waiting[*at]));
        let mut moves = vec![false; self.waiting.len()];
        for at in &order {
            let one = &mut self.waiting[*at];
            moves[*at] = one.place(first_ns.get(&one.step).copied(), watch.spread_ns);
        }
        let by = |at: &usize| self.waiting[*at].order(self.keys.at(*at));
        order.sort_by(|a, b| by(a).cmp(&by(b)));
        let is_other = |(place, at): (usize, &usize)| place != *at || moves[*at] || *at >= before;
        let begin = order
            .iter()
            .enumerate()
            .position(is_other)
            .unwrap_or(order.len());
        let waiting = self.waiting.split_off(begin);
        let keys = self.keys.split_off(begin);
        let marked = self.marked.split_off(begin);
        let evidence = self.evidence.split_off(self.settled + begin);
        for at in order[begin..].iter().map(|at| at - begin) {
            self.waiting.push(waiting[at]);
            self.keys.push(keys.at(at));
            self.marked.push(marked.at(at));
            self.evidence.push(evidence.at(at));
        }
        self.count(begin, before, watch);
        begin
    }

    /// Count the turns that may move from a place on; `counted` of them were counted before.
    fn count(&mut self, begin: usize, counted: usize, watch: &Watch) {
        let mut first = begin;
        if begin < counted {
            self.between = self.between.take().filter(|between| between.0 <= begin);
            let between = self.between.as_deref().cloned();
            (first, self.counts) = between.unwrap_or_else(|| (0, self.settled_counts.clone()));
        }
        self.numbers.truncate(self.settled + begin);
        for at in first..self.waiting.len() {
            if at + BEFORE_LATE == begin && at - first > BEFORE_LATE {
                self.between = Some(Box::new((at, self.counts.clone())));
            }
            self.add(self.marked_at(at, watch), at >= begin, watch);
        }
    }

    /// Count a turn; write its numbers if they are not known.
    fn add(&mut self, marked: Marked, is_new: bool, watch: &Watch) {
        let row = self.counts.add(marked, &watch.counting);
        if is_new {
            let names = &mut self.names;
            self.numbers.write(|bytes| {
                pack(&row.words(), bytes);
                names.put(row.phase_before_text.as_deref(), bytes);
            });
        }
    }

    /// Count the turns that may move, whose numbers are known.
    pub(super) fn recount(&mut self, watch: &Watch) {
        self.counts = self.settled_counts.clone();
        for at in 0..self.waiting.len() {
            self.counts.add(self.marked_at(at, watch), &watch.counting);
        }
    }

    fn marked_at(&self, at: usize, watch: &Watch) -> Marked {
        kept(
            &self.waiting[at],
            self.marked.at(at),
            &self.names,
            &watch.counting,
        )
    }

    /// How many turns lie so far back that no span in time can come before them.
    #[must_use]
    pub fn settling(&self, watch: &Watch) -> usize {
        let horizon_ns = self.settled_ns(watch);
        let moves = self.waiting.iter().find(|one| one.end_ns >= horizon_ns);
        let moves_ns = moves.map_or(i64::MAX, |one| one.order_ns);
        self.waiting.partition_point(|one| one.order_ns < moves_ns)
    }

    /// How many of the first turns may be settled of so many, without some that stand at one time
    /// with a later one: a step is settled as a whole.
    #[must_use]
    pub fn settled_whole(&self, count: usize) -> usize {
        self.waiting.get(count).map_or(count, |next| {
            let before = &self.waiting[..count];
            before.partition_point(|one| one.order_ns < next.order_ns)
        })
    }

    /// Settle the first turns that may move; return the last of them.
    pub fn settle(&mut self, count: usize, watch: &Watch) -> Option<Words> {
        for at in 0..count {
            let marked = self.marked_at(at, watch);
            let step = marked.step;
            if step != UNKNOWN && !self.steps.contains(&step) {
                self.steps.push_back(step);
            }
            self.settled_counts.add(marked, &watch.counting);
        }
        let over = self.steps.len().saturating_sub(watch.steps_max);
        self.steps.drain(..over);
        self.settled += count;
        self.waiting.drain(..count);
        self.keys.retain(|at| at >= count);
        self.marked.retain(|at| at >= count);
        let steps = &self.steps;
        let is_parted = |one: &Waiting| one.step != UNKNOWN && steps.contains(&one.step);
        self.parts = self.waiting.iter().any(is_parted);
        let since_ns = self.waiting.first().map_or(i64::MAX, |one| one.order_ns);
        self.between = self.between.take().filter(|between| between.0 > count);
        if let Some(between) = &mut self.between {
            between.0 -= count;
            between.1.settle(since_ns);
        }
        self.counts.settle(since_ns);
        self.settled_counts.settle(since_ns);
        let last = self.settled.checked_sub(1).map(|last| self.words(last));
        self.keep(watch);
        last
    }
}

/// The first ends of steps.
fn firsts<'a>(every: impl Iterator<Item = &'a Waiting>) -> BTreeMap<i64, i64> {
    let mut first_ns = BTreeMap::new();
    for one in every.filter(|one| one.step != UNKNOWN) {
        let first = first_ns.entry(one.step).or_insert(one.end_ns);
        *first = one.end_ns.min(*first);
    }
    first_ns
}

fn order_of(one: &New) -> Order<'_> {
    one.at.order(&one.key)
}

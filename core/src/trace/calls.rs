//! The calls that models asked for, and which of them have spans of their own.

use std::collections::VecDeque;

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};

use super::call_ids::{id_before, written_id};
use super::tree::Tree;
use super::view::View;
use crate::fields::made_ids::is_made;
use crate::fields::message::ToolCall;
use crate::fields::payloads::bare;
use crate::fields::said::told;
use crate::fields::span_fields::Role;

/// A call that a model asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The call.
    pub call: &'a ToolCall,
    /// Which of the models asked for it.
    pub model: usize,
    /// How many turns before its model it was asked for; 0 if the model did.
    pub ago: usize,
}

/// The calls of a trace, and the spans of its tools.
pub struct Calls<'a> {
    /// In the order in which they were asked for.
    pub asked: Vec<Asked<'a>>,
    /// Spans of tools; those of no kind that a model asked for come last.
    pub tools: Vec<&'a View<'a>>,
    /// Where these begin.
    pub adopted: usize,
    /// The call of each tool.
    pub matched: Vec<Option<usize>>,
    bares: HashMap<&'a str, Option<String>>,
}

impl<'a> Calls<'a> {
    /// Join calls and spans. Of the `spare` spans, which have no kind, some may be calls; the first
    /// model `replays` what it was given where earlier traces do not have it.
    #[must_use]
    pub fn new(
        models: &[&'a View<'a>],
        tools: Vec<&'a View<'a>>,
        spare: Vec<&'a View<'a>>,
        tree: &Tree<'a>,
        replays: bool,
    ) -> Self {
        let asked = asked(models, &tools, replays);
        let adopted = tools.len();
        let mut calls = Self {
            asked,
            tools,
            adopted,
            matched: vec![],
            bares: HashMap::new(),
        };
        if !calls.asked.is_empty() && !spare.is_empty() {
            calls.matched = calls.joined(models, false);
            calls.adopt(spare, tree);
        }
        calls.matched = calls.joined(models, true);
        calls
    }

    /// The arguments of a tool's span, or those of its call if it has none, or only a bare value.
    #[must_use]
    pub fn arguments(&self, tool: usize) -> Option<&'a str> {
        let shown = self.tools[tool].arguments;
        let call = self.matched[tool].map(|index| self.asked[index].call);
        let Some(asked) = call.and_then(|call| call.arguments.as_deref()) else {
            return shown;
        };
        match shown {
            None => Some(asked),
            Some(shown) if shown != asked && bare(asked).as_deref() == Some(shown) => Some(asked),
            shown => shown,
        }
    }

    /// Take spans of no kind that have name and arguments of a call that was asked for.
    ///
    /// Each call takes one. A span that lies around or within a call's own is no second one.
    fn adopt(&mut self, mut spare: Vec<&'a View<'a>>, tree: &Tree<'a>) {
        let covered: HashSet<usize> = self.matched.iter().flatten().copied().collect();
        let mut waiting: HashMap<(&str, Option<&str>), usize> = HashMap::new();
        for (index, asked) in self.asked.iter().enumerate() {
            if !covered.contains(&index) {
                let key = (&*asked.call.name, asked.call.arguments.as_deref());
                *waiting.entry(key).or_default() += 1;
            }
        }
        spare.retain(|span| waiting.contains_key(&(span.name(), span.arguments)));
        if spare.is_empty() {
            return;
        }
        let mut around: HashSet<(usize, &str)> = HashSet::new();
        for tool in &self.tools {
            around.extend(tree.ancestors(tool.place).map(|above| (above, tool.name())));
        }
        spare.sort_by_key(|span| span.start());
        let mut found: HashSet<usize> = HashSet::new();
        for span in spare {
            let Some(left) = waiting.get_mut(&(span.name(), span.arguments)) else {
                continue;
            };
            if *left == 0 || around.contains(&(span.place, span.name())) {
                continue;
            }
            let is_call =
                |above: &usize| tree.kinds[*above] == Some(Role::Tool) || found.contains(above);
            let mut above = tree.ancestors(span.place);
            if above.any(|above| tree.fields(above).name == span.name() && is_call(&above)) {
                continue;
            }
            *left -= 1;
            found.insert(span.place);
            self.tools.push(span);
        }
    }

    /// The call of each tool's span by its id, else by what it does.
    ///
    /// That is name and arguments, in order, else the name alone if a span or a call has no id,
    /// unless names shall not be enough.
    fn joined(&mut self, models: &[&'a View<'a>], by_name: bool) -> Vec<Option<usize>> {
        let mut by_id: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, asked) in self.asked.iter().enumerate() {
            if let Some(id) = told(asked.call.call_id.as_ref()) {
                by_id.entry(written_id(id)).or_default().push(index);
            }
        }
        let mut matched: Vec<Option<usize>> = vec![None; self.tools.len()];
        let mut taken = vec![false; self.asked.len()];
        let mut several: HashMap<&str, Reused<'a>> = HashMap::new();
        for (place, tool) in self.tools.iter().enumerate() {
            let id = tool.call_id.filter(|id| !id.is_empty()).map(written_id);
            let Some((id, calls)) = id.and_then(|id| by_id.get_key_value(id)) else {
                continue;
            };
            let index = match calls.as_slice() {
                [only] => *only,
                _ => several
                    .entry(id)
                    .or_insert_with(|| Reused::new(calls, &self.asked, models))
                    .call_of(tool),
            };
            (matched[place], taken[index]) = (Some(index), true);
        }
        self.join_rest(&mut matched, &mut taken, by_name);
        matched
    }

    fn join_rest(&mut self, matched: &mut [Option<usize>], taken: &mut [bool], by_name: bool) {
        let mut left: Vec<usize> = (0..self.tools.len())
            .filter(|place| matched[*place].is_none())
            .collect();
        if left.is_empty() || self.asked.is_empty() {
            return;
        }
        left.sort_by_key(|place| self.tools[*place].start());
        let names: HashSet<&str> = left.iter().map(|place| self.tools[*place].name()).collect();
        let mut waiting: HashMap<(&str, Option<&str>), VecDeque<usize>> = HashMap::new();
        let mut without_id: HashMap<&str, VecDeque<usize>> = HashMap::new();
        let asked = self.asked.iter().enumerate();
        let named: Vec<_> = asked
            .filter(|(_, each)| names.contains(&*each.call.name))
            .collect();
        for (index, each) in &named {
            let call = each.call;
            if written(call).is_none() {
                without_id.entry(&call.name).or_default().push_back(*index);
            }
            if let Some(text) = call.arguments.as_deref().filter(|_| !taken[*index]) {
                self.bares.entry(text).or_insert_with(|| bare(text));
            }
        }
        for (index, each) in named.into_iter().filter(|(index, _)| !taken[*index]) {
            let arguments = each.call.arguments.as_deref();
            let bare = arguments.and_then(|text| self.bares.get(text)?.as_deref());
            let mut add = |key| {
                waiting
                    .entry((&each.call.name, key))
                    .or_default()
                    .push_back(index)
            };
            add(None);
            if arguments.is_some() {
                add(arguments);
            }
            if bare.is_some() && bare != arguments {
                add(bare);
            }
        }
        let mut take = |place: usize, calls: Option<&mut VecDeque<usize>>| {
            let Some(calls) = calls.filter(|_| matched[place].is_none()) else {
                return;
            };
            while let Some(index) = calls.pop_front() {
                if !taken[index] {
                    (taken[index], matched[place]) = (true, Some(index));
                    return;
                }
            }
        };
        for place in &left {
            let tool = &self.tools[*place];
            if tool.arguments.is_some() {
                take(*place, waiting.get_mut(&(tool.name(), tool.arguments)));
            }
        }
        for place in left.iter().filter(|_| by_name) {
            let tool = &self.tools[*place];
            let calls = match tool.call_id {
                None => waiting.get_mut(&(tool.name(), None)),
                Some(_) => without_id.get_mut(tool.name()),
            };
            take(*place, calls);
        }
    }
}

/// The id that a call has in its spans.
fn written(call: &ToolCall) -> Option<&str> {
    told(call.call_id.as_ref()).filter(|id| !is_made(id))
}

/// The start of the model that asked for a call, and which call it is.
type At = (i64, usize);

/// The calls of one id, of which a span has the last before it began, of those that do what it does.
struct Reused<'a> {
    first: usize,
    every: Vec<At>, // sorted
    does: HashMap<(&'a str, Option<String>), Vec<At>>,
}

impl<'a> Reused<'a> {
    fn new(calls: &[usize], asked: &[Asked<'a>], models: &[&'a View<'a>]) -> Self {
        let mut reused = Self {
            first: calls[0],
            every: Vec::new(),
            does: HashMap::new(),
        };
        for index in calls {
            let each = asked[*index];
            let place = (models[each.model].fields().start_ns, *index);
            reused.every.push(place);
            let arguments = each.call.arguments.clone();
            let bare = arguments.as_deref().and_then(bare);
            if bare != arguments {
                reused
                    .does
                    .entry((&each.call.name, bare))
                    .or_default()
                    .push(place);
            }
            reused
                .does
                .entry((&each.call.name, arguments))
                .or_default()
                .push(place);
        }
        reused.every.sort_unstable();
        reused
            .does
            .values_mut()
            .for_each(|places| places.sort_unstable());
        reused
    }

    fn call_of(&self, tool: &View<'_>) -> usize {
        let does = self
            .does
            .get(&(tool.name(), tool.arguments.map(str::to_owned)));
        let start_ns = tool.fields().start_ns;
        let last = |places: &[At]| {
            let count = places.partition_point(|(start, _)| *start <= start_ns);
            places[..count].last().map(|(_, index)| *index)
        };
        let same = does.and_then(|places| last(places));
        same.or_else(|| last(&self.every)).unwrap_or(self.first)
    }
}

/// Every call that a model asked for.
///
/// Calls that only the first response's history shows are replayed, unless earlier traces of the
/// session have them. Later histories show nothing new, and some name calls differently.
fn asked<'a>(models: &[&'a View<'a>], tools: &[&'a View<'a>], replays: bool) -> Vec<Asked<'a>> {
    let mut found = Vec::new();
    if replays && let Some(first) = models.first() {
        let given = first.heard.fields.heard();
        let history: Vec<(&str, &ToolCall)> = given
            .iter()
            .flat_map(|message| &message.calls)
            .filter_map(|call| Some((told(call.call_id.as_ref())?, call)))
            .collect();
        let own = if history.is_empty() {
            HashSet::new()
        } else {
            own_ids(models, tools)
        };
        let history: Vec<&ToolCall> = history
            .into_iter()
            .filter(|(id, _)| !own.contains(*id))
            .map(|(_, call)| call)
            .collect();
        let count = history.len();
        let past = history.into_iter().enumerate();
        found.extend(past.map(|(at, call)| Asked {
            call,
            model: 0,
            ago: count - at,
        }));
    }
    let mut asking: HashMap<&str, usize> = HashMap::new();
    let mut asks: Asks<'a> = HashMap::new();
    for (model, span) in models.iter().enumerate() {
        for call in span.calls() {
            let id = written(call);
            let before = id.and_then(|id| asking.get(id));
            if before.is_none_or(|before| is_new_call(call, model, *before, models, &mut asks)) {
                found.push(Asked {
                    call,
                    model,
                    ago: 0,
                });
                if let Some(id) = id {
                    asking.insert(id, model);
                }
            }
        }
    }
    found
}

/// The ids of the calls that the answers of these models ask for.
fn own_ids(models: &[&View<'_>], tools: &[&View<'_>]) -> HashSet<String> {
    // One span for many requests may show the history of one and the answer of another.
    let have_spans: HashSet<&str> = tools
        .iter()
        .filter_map(|tool| tool.call_id)
        .map(written_id)
        .collect();
    let mut own = HashSet::new();
    for id in models
        .iter()
        .flat_map(|model| model.calls())
        .filter_map(|call| told(call.call_id.as_ref()))
    {
        if have_spans.contains(written_id(id)) {
            own.extend(id_before(id));
        }
        own.insert(id.to_owned());
    }
    own
}

type Asks<'a> = HashMap<usize, HashSet<&'a ToolCall>>;

/// Whether a call is new, whose id a response was asking for before.
///
/// Two spans of one response ask for the same, at the same time or given the same.
fn is_new_call<'a>(
    call: &ToolCall,
    again: usize,
    asking: usize,
    models: &[&'a View<'a>],
    asks: &mut Asks<'a>,
) -> bool {
    let before = &models[asking];
    if !asks
        .entry(asking)
        .or_insert_with(|| before.calls().collect())
        .contains(call)
    {
        return true;
    }
    let has_same = models[again].heard.heard_same(before.heard);
    let is_later = models[again].fields().start_ns >= before.fields().end_ns;
    again != asking && is_later && !has_same
}

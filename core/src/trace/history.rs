//! What models were given: the results of calls, in the histories that their spans repeat.

use foldhash::{HashMap, HashMapExt, HashSet};

use super::span::{Place, Span, hash_of};
use super::tree::Tree;
use crate::fields::made_ids::is_made;
use crate::fields::message::{Message, ToolCall, ToolResult};
use crate::fields::span_fields::Role;

/// A result that a model was given.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// The span of the model.
    pub place: Place,
    /// What it was given.
    pub result: &'a ToolResult,
    /// The call, if that is shown.
    pub call: Option<&'a ToolCall>,
}

/// The history in the last request of a trace and session.
#[derive(Default)]
struct Conversation<'a> {
    heard: (usize, u64), // how many messages, and their hash
    asked: HashMap<Option<&'a str>, &'a ToolCall>,
    answered: HashSet<&'a str>,
}

impl<'a> Conversation<'a> {
    /// Add the results in the history of a span, with their calls if these are shown.
    ///
    /// If the history continues the last one, only the results after the last one are added.
    fn add(&mut self, place: Place, span: &'a Span, found: &mut Vec<Given<'a>>) {
        let given = span.fields.heard();
        if given.is_empty() {
            return self.add_own(place, span, found);
        }
        let heard = &span.said().heard;
        let (count, before) = self.heard;
        let goes_on = count == 0 || heard.get(count - 1) == Some(&before);
        let mut new = if goes_on { &given[count..] } else { given };
        let is_told_again = |call: &ToolCall| {
            call.arguments.is_some()
                && call
                    .call_id
                    .as_deref()
                    .is_some_and(|id| self.answered.contains(id))
        };
        if !goes_on
            || new
                .iter()
                .flat_map(|message| &message.calls)
                .any(is_told_again)
        {
            new = given;
            self.asked.clear();
            self.answered.clear();
        }
        self.heard = (given.len(), heard.last().copied().unwrap_or_default());
        let calls = new.iter().flat_map(|message| &message.calls);
        let known = calls.filter(|call| call.arguments.is_some());
        self.asked
            .extend(known.map(|call| (call.call_id.as_deref(), call)));
        for (id, result) in new.iter().flat_map(|message| results_with_ids(message)) {
            self.answered.insert(id);
            let call = self.asked.get(&Some(id)).copied();
            found.push(Given {
                place,
                result,
                call,
            });
        }
        self.add_own(place, span, found);
    }

    /// Add the results that a response has beside its calls: of tools of its API, or where a file
    /// ends with what they returned.
    fn add_own(&self, place: Place, span: &'a Span, found: &mut Vec<Given<'a>>) {
        let answer = span.fields.answer.as_deref().unwrap_or_default();
        let calls = answer.iter().flat_map(|message| &message.calls);
        for (id, result) in answer.iter().flat_map(|message| results_with_ids(message)) {
            let own = calls
                .clone()
                .find(|call| call.call_id.as_deref() == Some(id));
            let call = own.or_else(|| self.asked.get(&Some(id)).copied());
            found.push(Given {
                place,
                result,
                call: call.filter(|call| call.arguments.is_some()),
            });
        }
    }
}

fn results_with_ids(message: &Message) -> impl Iterator<Item = (&str, &ToolResult)> {
    message.results.iter().filter_map(|result| {
        result.text.as_ref()?;
        let id = result.call_id.as_deref().filter(|id| !id.is_empty())?;
        Some((id, result))
    })
}

/// Each result that a model was given, with its span, and its call if that is shown.
///
/// The spans are those of models, each with the span whose history counts for it, in the order of
/// their ends. A result may be left out if the history of an earlier span of its session showed it.
#[must_use]
pub fn given_results<'a>(
    models: impl IntoIterator<Item = (Place, &'a Span)>,
    tree: &Tree<'a>,
) -> Vec<Given<'a>> {
    let mut found = Vec::new();
    let mut conversations: HashMap<&str, Conversation<'a>> = HashMap::new();
    let mut models: Vec<_> = models.into_iter().collect();
    models.sort_by_key(|(place, _)| {
        let fields = tree.fields(*place);
        (fields.end_ns, &*fields.span_id)
    });
    for (place, heard) in models {
        let session = &*tree.frames.session(place).name;
        conversations
            .entry(session)
            .or_default()
            .add(place, heard, &mut found);
    }
    found
}

/// What a model was given beyond the model before it in its session, at most `given_results` of it.
pub fn given_after<'a>(before: Option<&'a Span>, place: Place, span: &'a Span) -> Vec<Given<'a>> {
    let mut conversation = Conversation::default();
    let mut found = Vec::new();
    if let Some(before) = before {
        conversation.add(place, before, &mut found);
        found.clear();
    }
    conversation.add(place, span, &mut found);
    found
}

/// The spans of models that were given anything, as they were read.
pub fn models_given<'a>(tree: &Tree<'a>) -> impl Iterator<Item = (Place, &'a Span)> {
    let is_model = |place: &Place| tree.kinds[*place] == Some(Role::Model);
    let given = (0..tree.ended)
        .filter(is_model)
        .map(|place| (place, tree.spans[place]));
    given.filter(|(_, span)| !span.fields.heard().is_empty() || span.fields.brings_results())
}

/// A result, a hash of where it was given, and when the model that was given it was asked.
pub type Found<'a> = (&'a ToolResult, u64, i64);

/// The first results that a trace shows, by the id of the call, and by the call where it is shown.
#[derive(Default)]
pub struct ResultsInTrace<'a> {
    by_id: HashMap<&'a str, Found<'a>>,
    by_call: HashMap<CallParts<'a>, Found<'a>>,
}

/// The id, the name and the arguments of a call.
pub type CallParts<'a> = (Option<&'a str>, &'a str, Option<&'a str>);

/// The parts of a call.
#[must_use]
pub fn parts_of(call: &ToolCall) -> CallParts<'_> {
    (
        call.call_id.as_deref(),
        &call.name,
        call.arguments.as_deref(),
    )
}

impl<'a> ResultsInTrace<'a> {
    /// Note the first result of each call; the trace has so many `before` these.
    #[must_use]
    pub fn new(given: &[Given<'a>], before: usize, tree: &Tree<'a>) -> Self {
        let mut results = Self::default();
        for (each, number) in given.iter().zip(before..) {
            let hash = hash_of((tree.spans[each.place].hash, number));
            let found = (each.result, hash, tree.fields(each.place).start_ns);
            // A made id is the place of a call in its history, which may have lost some.
            let id = each.result.call_id.as_deref();
            if let Some(id) = id.filter(|id| each.call.is_none() || !is_made(id)) {
                results.by_id.entry(id).or_insert(found);
            }
            if let Some(call) = each.call {
                results.by_call.entry(parts_of(call)).or_insert(found);
            }
        }
        results
    }

    /// The result of a call: as it is shown with the call, else by its id alone.
    #[must_use]
    pub fn of(&self, call: CallParts<'_>) -> Option<Found<'a>> {
        let by_id = || self.by_id.get(call.0?);
        self.by_call.get(&call).or_else(by_id).copied()
    }
}

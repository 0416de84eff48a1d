//! Which spans change nothing in their trace but their own turns: only these are made.
//!
//! Most spans of an agent are such: no other waits for them as a parent, the model that asked for a
//! call is known by the id of the call, and a response comes after all others. The turns of such a
//! span are made as those of a whole trace are, of the span and those that it depends on. What the
//! rest of the trace is asked for is noted here, in one way of all its spans and of one more. This
//! is no second way to turns; it is beside the first because a trace of 2,000 spans takes
//! milliseconds to make.

use std::sync::Arc;

use foldhash::{HashMap, HashSet};

use super::agents::is_from_user;
use super::call_ids::written_id;
use super::draft::Draft;
use super::failure::lacks;
use super::history::{Given, given_after, parts_of};
use super::live_trace::LiveTrace;
use super::sessions::Sessions;
use super::span::{ANCESTORS_MAX, Place, Span, follows_answer, hash_of};
use super::ties::{Session, Ties};
use super::tree::Tree;
use super::turn::Kind;
use super::turns::Made;
use super::view::View;
use crate::fields::made_ids::is_made;
use crate::fields::message::ToolCall;
use crate::fields::said::told;
use crate::fields::span_fields::{Name, Role, SpanFields};

/// What the turns of one more span depend on, and what they may change.
#[derive(Debug)]
pub struct Tail {
    session: Session,
    start_ns: i64,
    service: Option<Name>, // of all spans
    /// The only user that the trace names.
    pub user: Option<Arc<str>>,
    has_user: bool,
    parents: HashSet<u64>,           // ids of parents that have not come
    agents: Option<HashSet<String>>, // that speak or call; none without spans of agents
    speaks: bool,                    // whether a model does
    models_end_ns: i64,
    models_start_ns: i64,
    calls: HashMap<u64, Call>,     // by the id
    names: HashMap<String, usize>, // of calls that no span has by their id
    waiting: usize,                // calls that are held back
    waits_for: Option<String>,     // their model, if none of its calls has a span and all have ids
    alone: HashSet<String>,        // names of tools with spans that have no call by its id
    has_spare: bool,
    given: usize,
    given_calls: HashSet<u64>,
    heard: HashMap<String, String>, // the last model of each session that was given anything
}

/// What a trace shows of the calls with an id.
#[derive(Debug, Default)]
struct Call {
    model: Option<String>, // the span that asked for it, if a span may be that of this call alone
    is_asked: bool,
    waits: bool,    // whether it is held back
    is_shown: bool, // whether a span of a tool has the id
    has_span: bool, // whether that is the span of the model's call
    lacks: bool,    // whether the result may be shown elsewhere
    is_given: bool, // whether a model was given a result with the id
}

impl Tail {
    /// Note what matters of a trace that was made as a whole; `None` if it is an odd one.
    #[must_use]
    pub fn of(draft: &Draft<'_>, made: &Made<'_>) -> Option<Self> {
        let (tree, calls) = (&draft.tree, &made.calls);
        let spans = || tree.spans.iter().map(|span| &span.fields);
        let first = made.models.first();
        let mut past = first
            .into_iter()
            .flat_map(|model| model.heard.fields.heard());
        let service = spans().next()?.service.clone();
        // Which session pays, when a request was given up, and what responses used before depend on
        // spans all over the trace.
        let is_odd = tree.circle().is_some()
            || spans().any(|fields| fields.service != service || fields.is_open)
            || made.models.iter().any(|model| !model.is_answered())
            || spans().any(SpanFields::is_lone)
            || spans().any(|fields| fields.tokens().so_far)
            || past.any(|message| !message.calls.is_empty())
            || calls.adopted < calls.tools.len()
            || draft.views.len() < tree.ended
            || !draft.call_places().is_empty();
        if is_odd {
            return None;
        }
        let has_agents = tree.kinds[..tree.ended].contains(&Some(Role::Agent));
        let acting = made.models.iter().chain(&calls.tools);
        let acting = acting.filter_map(|view| tree.frames.of(view.place).agent);
        let mut tail = Self {
            session: tree.session.clone(),
            start_ns: draft.start_ns?,
            service,
            user: tree.frames.user().map(Arc::from),
            has_user: spans().any(|fields| told(fields.user.as_ref()).is_some()),
            parents: HashSet::default(),
            agents: has_agents.then(|| acting.map(str::to_owned).collect()),
            speaks: first.is_some(),
            models_end_ns: i64::MIN,
            models_start_ns: i64::MIN,
            calls: HashMap::default(),
            names: HashMap::default(),
            waiting: 0,
            waits_for: None,
            alone: HashSet::default(),
            has_spare: draft.views.iter().any(is_spare),
            given: 0,
            given_calls: HashSet::default(),
            heard: HashMap::default(),
        };
        tail.note(draft, made, &|_| true);
        Some(tail)
    }

    /// Note the spans of a draft that are new.
    fn note(&mut self, draft: &Draft<'_>, made: &Made<'_>, is_new: &dyn Fn(&Span) -> bool) {
        let tree = &draft.tree;
        let new = tree.spans.iter().filter(|span| is_new(span));
        let parents = new.filter_map(|span| span.fields.parent_span_id.as_deref());
        let missing = parents.filter(|parent| tree.place_of(parent).is_none());
        self.parents.extend(missing.map(hash_of));
        let models = (0..tree.ended).filter(|place| tree.kinds[*place] == Some(Role::Model));
        let mut models: Vec<Place> = models.filter(|place| is_new(tree.spans[*place])).collect();
        models.sort_by_key(|place| (tree.fields(*place).end_ns, &*tree.fields(*place).span_id));
        for place in models {
            let fields = tree.fields(place);
            self.models_end_ns = self.models_end_ns.max(fields.end_ns);
            self.models_start_ns = self.models_start_ns.max(fields.start_ns);
            if !fields.heard().is_empty() {
                let session = tree.frames.session(place).name.clone();
                self.heard.insert(session, fields.span_id.clone());
            }
        }
        self.given += draft.given.len();
        for each in &draft.given {
            if let Some(id) = each.result.call_id.as_deref() {
                self.call(id).is_given = true;
            }
            let call = each.call.map(|call| hash_of(parts_of(call)));
            self.given_calls.extend(call);
        }
        self.note_asked(made, is_new);
        self.note_tools(made, is_new);
    }

    fn note_asked(&mut self, made: &Made<'_>, is_new: &dyn Fn(&Span) -> bool) {
        let calls = &made.calls;
        let mut has_span = vec![false; calls.asked.len()];
        for index in calls.matched.iter().flatten() {
            has_span[*index] = true;
        }
        let starts = made.models.iter().map(|model| model.fields().start_ns);
        let last_ns = starts.max();
        let (mut held, mut is_clear): (Vec<&View<'_>>, bool) = (Vec::new(), true);
        for (index, asked) in calls.asked.iter().enumerate() {
            let model = made.models[asked.model];
            if !is_new(model.span) {
                continue;
            }
            let waits = !has_span[index] && last_ns < Some(model.fields().end_ns);
            self.waiting += usize::from(waits);
            *self.names.entry(asked.call.name.clone()).or_default() += 1;
            held.extend(waits.then_some(model));
            let Some(id) = told(asked.call.call_id.as_ref()) else {
                is_clear &= !waits;
                continue;
            };
            let may_be_shown = has_span[index] || made.held_back.contains(&index);
            let call = self.call(id);
            call.model = (may_be_shown && !call.is_asked).then(|| model.id().to_owned());
            is_clear &= !(waits && (is_made(id) || call.is_asked || call.is_given));
            call.is_asked = true;
            call.waits = waits;
            call.lacks |= !has_span[index];
        }
        if let Some(model) = held.first() {
            is_clear &= held.iter().all(|each| each.place == model.place);
            let is_all = is_clear && model.calls().count() == held.len();
            self.waits_for = is_all.then(|| model.id().to_owned());
        }
    }

    fn note_tools(&mut self, made: &Made<'_>, is_new: &dyn Fn(&Span) -> bool) {
        let tools = made.calls.tools.iter().enumerate();
        for (place, tool) in tools.filter(|(_, tool)| is_new(tool.span)) {
            let asked = call_of(place, made);
            let asked_id = asked.and_then(|call| call.call_id.as_deref());
            if let Some(id) = tool.call_id {
                self.call(id).is_shown = true;
            }
            let by_id = tool
                .call_id
                .filter(|id| asked_id.map(id_of) == Some(id_of(id)));
            if let Some(id) = by_id {
                let call = self.call(id);
                if call.model.is_some() && !std::mem::replace(&mut call.has_span, true) {
                    call.lacks = false;
                    let waited = std::mem::take(&mut call.waits);
                    if waited {
                        self.waiting -= 1;
                        self.waits_for = None;
                    }
                    let left = asked.and_then(|call| self.names.get_mut(&call.name));
                    left.into_iter().for_each(|left| *left -= 1);
                }
            } else {
                self.alone.insert(tool.name().to_owned());
                asked_id
                    .into_iter()
                    .for_each(|id| self.call(id).model = None);
            }
            if lacks(tool.result, tool.failed, tool.error) {
                let ids = tool.call_id.into_iter().chain(asked_id);
                ids.for_each(|id| self.call(id).lacks = true);
            }
        }
    }

    fn call(&mut self, id: &str) -> &mut Call {
        self.calls.entry(id_of(id)).or_default()
    }

    /// The part of a trace that the turns of a span depend on; `None` if they may change others.
    #[must_use]
    pub fn part<'a>(
        &self,
        span: &'a Span,
        user: Option<&'a str>,
        trace: &'a LiveTrace,
        ties: &'a Ties,
        sessions: &Sessions,
    ) -> Option<Draft<'a>> {
        if !self.may_follow(span) {
            return None;
        }
        let is_tool = span.fields.kind == Some(Role::Tool);
        let asking = if is_tool {
            self.asking(span)?
        } else {
            self.waits_for.as_deref()
        };
        let asking = asking.and_then(|model| Some(trace.named(model)?.0));
        let tree = tree_of(span, asking, user, trace, ties)?;
        let place = tree.place_of(&span.fields.span_id)?;
        let agent = tree.frames.of(place).agent;
        let mut others = self.agents.iter().filter(|_| agent.is_some());
        let acts = |acting: &HashSet<String>| agent.is_some_and(|agent| acting.contains(agent));
        if tree.circle().is_some()
            || tree.session != self.session
            || others.any(|acting| !acts(acting))
        {
            return None;
        }
        let session = tree.frames.session(place).name.clone();
        let mut given = Vec::new();
        if !is_tool {
            let before = self.heard.get(&session);
            let before = before.and_then(|before| Some(trace.named(before)?.0));
            given = given_after(before, place, span);
        }
        let draft = Draft::of(tree, given, Some(self.given));
        let view = draft.views.iter().find(|view| view.place == place)?;
        let is_over = asking.is_some_and(|asking| asking.fields.end_ns <= span.fields.start_ns);
        let is_free =
            is_tool || (self.waiting == 0 || is_over) && self.may_speak(view, sessions, &session);
        let changes = draft.given.iter().any(|each| self.changes(each));
        (draft.views.len() == draft.tree.ended && is_free && !changes).then_some(draft)
    }

    /// Take the turns of a span that were made of its part, and note it; returns whether they are
    /// those that all of its trace gives.
    pub fn take(&mut self, span: &Span, draft: &Draft<'_>, made: &mut Made<'_>) -> bool {
        let is_own = |each: &Span| std::ptr::eq(each, span);
        let mut tools = made.calls.tools.iter();
        let tool = tools.position(|tool| is_own(tool.span));
        if tool.is_some_and(|tool| !self.fits(tool, made)) {
            return false;
        }
        let id = &*span.fields.span_id;
        let held = self.waits_for.take_if(|_| tool.is_none());
        made.turns.retain(|turn| match turn.kind {
            Kind::Model => turn.span_id == id,
            Kind::Tool => turn.span_id == id || held.as_deref() == Some(&*turn.span_id),
            _ => false,
        });
        if let Some(held) = held {
            self.waiting = 0;
            let asked = made.calls.asked.iter();
            for asked in asked.filter(|asked| made.models[asked.model].id() == held) {
                let call = self.call(asked.call.call_id.as_deref().unwrap_or_default());
                (call.model, call.waits) = (None, false);
            }
        }
        self.note(draft, made, &is_own);
        true
    }

    fn may_follow(&self, span: &Span) -> bool {
        let fields = &span.fields;
        let user = told(fields.user.as_ref());
        let is_call = fields.kind == Some(Role::Tool) && !fields.is_part;
        (is_call || fields.kind == Some(Role::Model))
            && !fields.is_lone()
            && !span.tells_of_turns(None)
            && fields.service == self.service
            && !fields.is_open
            && !fields.brings_results()
            && fields.start_ns >= self.start_ns
            && user.is_none_or(|user| {
                self.user
                    .as_deref()
                    .map_or(self.has_user, |one| one == user)
            })
            && !self.parents.contains(&hash_of(&*fields.span_id))
    }

    /// The span of the model that asked for a call, if one did; `None` if it may be another call's.
    fn asking(&self, span: &Span) -> Option<Option<&str>> {
        let id = told(span.fields.call_id.as_ref()).map(id_of);
        let call = id.and_then(|id| self.calls.get(&id));
        if let Some(call) = call.filter(|call| call.is_asked) {
            return call.model.as_deref().map(Some);
        }
        let left = self.names.get(&span.fields.name);
        left.is_none_or(|left| *left == 0).then_some(None)
    }

    /// Whether a call was joined as it is in the whole trace, which shows no result for it.
    fn fits(&self, tool: usize, made: &Made<'_>) -> bool {
        let (view, asked) = (made.calls.tools[tool], call_of(tool, made));
        let asked_id = asked.and_then(|call| call.call_id.as_deref());
        let mut ids = view.call_id.into_iter().chain(asked_id);
        let is_given = |id| {
            let call = self.calls.get(&id_of(id));
            call.is_some_and(|call| call.is_given)
        };
        let is_asked = self.asking(view.span).flatten().is_some();
        let lacks = lacks(view.result, view.failed, view.error);
        asked.is_some() == is_asked && !(lacks && ids.any(is_given))
    }

    /// Whether a response comes after all others, and its calls have no spans and no results yet.
    fn may_speak(&self, view: &View<'_>, sessions: &Sessions, session: &str) -> bool {
        let fields = view.fields();
        let is_last = fields.end_ns > self.models_end_ns
            && fields.start_ns >= self.models_start_ns
            && fields.start_ns < fields.end_ns;
        let heard = view.heard;
        let may_be_a_persons = is_from_user(view)
            && (follows_answer(heard.fields.heard()) || heard.comes_again().is_some());
        let may_be_held = self.waiting > 0 && self.has_spare;
        if !(is_last && self.speaks && view.is_answered()) || may_be_a_persons || may_be_held {
            return false;
        }
        let mut ids = HashSet::default();
        view.calls().all(|call| {
            let id = told(call.call_id.as_ref()).map(id_of);
            let is_new = id.is_none_or(|id| {
                let known = self.calls.get(&id);
                !known.is_some_and(|call| call.is_asked || call.is_shown) && ids.insert(id)
            });
            is_new
                && !self.has_spare
                && !self.alone.contains(&call.name)
                && sessions.result(session, parts_of(call)).is_none()
                && !sessions.calls.has(session, call)
        })
    }

    /// Whether a result that a model was given changes a call.
    fn changes(&self, given: &Given<'_>) -> bool {
        let id = given.result.call_id.as_deref().map(id_of);
        let is_known = |call| self.given_calls.contains(&hash_of(parts_of(call)));
        let call = id.and_then(|id| self.calls.get(&id));
        call.is_some_and(|call| {
            call.lacks && !call.waits && (!call.is_given || !given.call.is_none_or(is_known))
        })
    }
}

fn id_of(call_id: &str) -> u64 {
    hash_of(written_id(call_id))
}

/// Whether a view is a span of no kind that may turn out to be a call.
fn is_spare(view: &View<'_>) -> bool {
    !view.span.tells_of_turns(view.kind) && view.arguments.is_some()
}

/// The call that was joined with a tool's span.
fn call_of<'a>(tool: usize, made: &Made<'a>) -> Option<&'a ToolCall> {
    let index = made.calls.matched[tool]?;
    Some(made.calls.asked[index].call)
}

/// A span, that of the model that asked for a call, and the spans around both; `None` if they are
/// too many.
fn tree_of<'a>(
    span: &'a Span,
    asking: Option<&'a Span>,
    user: Option<&'a str>,
    trace: &'a LiveTrace,
    ties: &'a Ties,
) -> Option<Tree<'a>> {
    let (mut ended, mut open): (Vec<&Span>, Vec<&Span>) = (Vec::new(), Vec::new());
    for start in [Some((span, true)), asking.map(|asking| (asking, true))] {
        let mut at = start;
        while let Some((above, is_over)) = at {
            let known = if is_over { &mut ended } else { &mut open };
            if known.iter().any(|each| std::ptr::eq::<Span>(*each, above)) {
                break;
            }
            known.push(above);
            if ended.len() + open.len() > ANCESTORS_MAX {
                return None;
            }
            let parent = above.fields.parent_span_id.as_deref();
            at = parent.and_then(|id| trace.named(id));
        }
    }
    ended.sort_by(|one, other| one.place().cmp(&other.place()));
    Some(Tree::new(&ended, &open, user, ties))
}

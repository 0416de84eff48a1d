//! A span that changes nothing in its trace but its own turns: only these are made.
//!
//! Most spans of an agent are such: no other waits for them as a parent, the model that asked for a
//! call is known by the id of the call, and a response comes after all others. What has to be known
//! of the trace for that is noted whenever all of it is made. For any other span all of it is made.

use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::{HashMap, HashSet};

use super::agents::is_from_user;
use super::call_ids::written_id;
use super::draft::{Draft, shown};
use super::failure::lacks;
use super::history::{Given, given_after, parts_of};
use super::known::{Known, New};
use super::live_trace::LiveTrace;
use super::sessions::Sessions;
use super::span::{Span, follows_answer, hash_of};
use super::ties::{Session, Ties};
use super::tree::{ANCESTORS_MAX, Place, Tree};
use super::turn::{Kind, Turn};
use super::turns::{Made, turns_of};
use super::view::View;
use crate::fields::message::ToolCall;
use crate::fields::said::told;
use crate::fields::span_fields::{Name, Role, SpanFields};

/// What the turns of one more span depend on, and what they may change.
#[derive(Debug)]
pub struct Tail {
    session: Session,
    start_ns: i64,
    service: Option<Name>, // of all spans
    user: Option<Arc<str>>,
    has_user: bool,
    parents: HashSet<u64>,           // ids of parents that have not come
    agents: Option<HashSet<String>>, // that speak or call; none without spans of agents
    speaks: bool,                    // whether a model does
    models_end_ns: i64,
    models_start_ns: i64,
    asked: HashMap<u64, Option<Asked>>, // by the id; none where more than one call has it
    names: HashMap<String, usize>,      // of calls that no span has by their id
    waiting: usize,                     // calls that are held back
    tools: HashSet<u64>,                // ids of the calls of spans
    alone: HashSet<String>,             // names of tools with spans that have no call by its id
    has_spare: bool,
    lacking: HashSet<u64>, // ids of calls whose result may be shown elsewhere
    given: usize,
    given_ids: HashSet<u64>,
    given_calls: HashSet<u64>,
    heard: HashMap<String, String>, // the last model of each session that was given anything
}

/// A call: the span of the model that asked for it, and whether it has a span of its own by its id.
#[derive(Debug)]
struct Asked {
    model: String,
    has_span: bool,
}

/// What a span brought.
pub struct Followed {
    /// Its turns.
    pub new: Vec<New>,
    /// Sessions in which it showed a result that is new or another.
    pub sessions: BTreeSet<String>,
    /// Sessions in which it waits for results.
    pub waits_in: Vec<String>,
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
        let is_step = |span: &SpanFields| span.kind == Some(Role::Tool) && span.shape.is_some();
        let service = spans().next()?.service.clone();
        // Which session pays, and when a request was given up, depend on spans all over the trace.
        let is_odd = tree.circle().is_some()
            || spans().any(|fields| fields.service != service || fields.is_open)
            || made.models.iter().any(|model| !model.is_answered())
            || spans().any(is_step)
            || past.any(|message| !message.calls.is_empty())
            || calls.adopted < calls.tools.len()
            || draft.views.len() < tree.ended
            || !draft.call_places().is_empty();
        if is_odd {
            return None;
        }
        let user = tree.frames.user();
        let missing = spans()
            .filter_map(|fields| fields.parent_span_id.as_deref())
            .filter(|parent| tree.place_of(parent).is_none());
        let has_agents = draft
            .views
            .iter()
            .any(|view| view.kind == Some(Role::Agent));
        let acting = made.models.iter().chain(&calls.tools);
        let acting = acting.filter_map(|view| tree.frames.of(view.place).agent);
        let mut tail = Self {
            session: tree.session.clone(),
            start_ns: draft.start_ns?,
            service,
            user: user.map(Arc::from),
            has_user: spans().any(|fields| told(fields.user.as_ref()).is_some()),
            parents: missing.map(hash_of).collect(),
            agents: has_agents.then(|| acting.map(str::to_owned).collect()),
            speaks: first.is_some(),
            models_end_ns: i64::MIN,
            models_start_ns: i64::MIN,
            asked: HashMap::default(),
            names: HashMap::default(),
            waiting: 0,
            tools: HashSet::default(),
            alone: HashSet::default(),
            has_spare: draft.views.iter().any(is_spare),
            lacking: HashSet::default(),
            given: draft.given.len(),
            given_ids: HashSet::default(),
            given_calls: HashSet::default(),
            heard: HashMap::default(),
        };
        let models = (0..tree.ended).filter(|place| tree.kinds[*place] == Some(Role::Model));
        let mut models: Vec<Place> = models.collect();
        models.sort_by_key(|place| (tree.fields(*place).end_ns, &*tree.fields(*place).span_id));
        for place in models {
            tail.note_model(tree.spans[place], &tree.frames.session(place).name);
        }
        tail.note_given(&draft.given);
        tail.note_calls(made);
        Some(tail)
    }

    fn note_calls(&mut self, made: &Made<'_>) {
        let calls = &made.calls;
        let mut spans: Vec<Option<bool>> = vec![None; calls.asked.len()]; // whether by the id
        for (tool, index) in calls.tools.iter().zip(&calls.matched) {
            let id = tool.call_id.map(id_of);
            self.tools.extend(id);
            let asked = index.and_then(|index| calls.asked[index].call.call_id.as_deref());
            self.note_lack(tool, asked);
            let by_id = id.is_some() && asked.map(id_of) == id;
            if let Some(index) = *index {
                spans[index] = Some(by_id && spans[index] != Some(false));
            }
            if !by_id {
                self.alone.insert(tool.name().to_owned());
            }
        }
        let last_ns = made
            .models
            .iter()
            .map(|model| model.fields().start_ns)
            .max();
        for (index, asked) in calls.asked.iter().enumerate() {
            let model = made.models[asked.model];
            let has_span = spans[index] == Some(true);
            if spans[index].is_none() && last_ns < Some(model.fields().end_ns) {
                self.waiting += 1;
            }
            if !has_span {
                *self.names.entry(asked.call.name.clone()).or_default() += 1;
            }
            let Some(id) = told(asked.call.call_id.as_ref()).map(id_of) else {
                continue;
            };
            if spans[index].is_none() {
                self.lacking.insert(id);
            }
            let is_free = spans[index].is_none() && made.held_back.contains(&index);
            let one = (is_free || has_span).then(|| Asked {
                model: model.id().to_owned(),
                has_span,
            });
            self.asked
                .entry(id)
                .and_modify(|one| *one = None)
                .or_insert(one);
        }
    }

    fn note_model(&mut self, span: &Span, session: &str) {
        let fields = &span.fields;
        self.models_end_ns = self.models_end_ns.max(fields.end_ns);
        self.models_start_ns = self.models_start_ns.max(fields.start_ns);
        if !fields.heard().is_empty() {
            self.heard
                .insert(session.to_owned(), fields.span_id.clone());
        }
    }

    fn note_given(&mut self, given: &[Given<'_>]) {
        for each in given {
            self.given_ids
                .extend(each.result.call_id.as_deref().map(id_of));
            let call = each.call.map(|call| hash_of(parts_of(call)));
            self.given_calls.extend(call);
        }
    }

    fn note_lack(&mut self, tool: &View<'_>, asked: Option<&str>) {
        if lacks(tool.result, tool.failed, tool.error) {
            self.lacking
                .extend(tool.call_id.into_iter().chain(asked).map(id_of));
        }
    }

    /// Make the turns of a span that came; `None` if it may change others.
    pub fn follow(
        &mut self,
        place: usize,
        trace: &LiveTrace,
        ties: &Ties,
        sessions: &mut Sessions,
        known: &mut Known,
    ) -> Option<Followed> {
        let span = trace.at(place);
        let (id, trace_id) = (&*span.fields.span_id, &*span.fields.trace_id);
        if !self.may_follow(span) || trace.has_same_times(place) {
            return None;
        }
        let is_tool = span.fields.kind == Some(Role::Tool);
        let asking = if is_tool { self.asking(span)? } else { None };
        let asking = asking.and_then(|model| Some(trace.named(model)?.0));
        let user = self.user.clone();
        let tree = part(span, asking, trace, ties, user.as_deref())?;
        if tree.circle().is_some() || tree.session != self.session {
            return None;
        }
        let draft = Draft::part(tree)?;
        let view = draft.views.iter().find(|view| view.id() == id)?;
        let agent = draft.tree.frames.of(view.place).agent;
        let mut others = self.agents.iter().filter(|_| agent.is_some());
        if others.any(|acting| !agent.is_some_and(|agent| acting.contains(agent))) {
            return None;
        }
        let session = &*draft.tree.frames.session(view.place).name;
        let given = if is_tool {
            Vec::new()
        } else {
            self.given(view, session, trace, sessions)?
        };
        let mut made = turns_of(&draft, sessions, false, &mut |_, _, _| false);
        if is_tool && !self.fits(view, asking.is_some(), &made) {
            return None;
        }
        let is_own =
            |turn: &Turn<'_>| turn.span_id == id && matches!(turn.kind, Kind::Tool | Kind::Model);
        made.turns.retain(is_own);
        known.begin();
        let new = known.learn_more(&made.turns);
        let waits_in = made.waits_in.iter().map(|&name| name.to_owned()).collect();
        if is_tool {
            self.note_call(view, &made);
        } else {
            self.note_response(view, session);
            self.note_given(&given);
        }
        let parent = span.fields.parent_span_id.as_deref();
        let missing = parent.filter(|parent| trace.named(parent).is_none());
        self.parents.extend(missing.map(hash_of));
        let shown = shown(&given, self.given, &draft.tree);
        self.given += given.len();
        let sessions = if shown.is_empty() {
            BTreeSet::new()
        } else {
            sessions.learn_more(trace_id, &shown)
        };
        Some(Followed {
            new,
            sessions,
            waits_in,
        })
    }

    /// What a response was given that comes after all others; `None` if that changes a call.
    fn given<'a>(
        &self,
        view: &View<'a>,
        session: &str,
        trace: &'a LiveTrace,
        sessions: &Sessions,
    ) -> Option<Vec<Given<'a>>> {
        let before = self.heard.get(session);
        let before = before.and_then(|before| Some(trace.named(before)?.0));
        if !self.may_speak(view, sessions, session) {
            return None;
        }
        let given = given_after(before, view.place, view.span);
        let is_free = !given.iter().any(|each| self.changes(each));
        is_free.then_some(given)
    }

    fn may_follow(&self, span: &Span) -> bool {
        let fields = &span.fields;
        let user = told(fields.user.as_ref());
        let is_call = fields.kind == Some(Role::Tool) && fields.shape.is_none() && !fields.is_part;
        (is_call || fields.kind == Some(Role::Model))
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
        match id.and_then(|id| self.asked.get(&id)) {
            Some(asked) => asked.as_ref().map(|asked| Some(&*asked.model)),
            None => (self
                .names
                .get(&span.fields.name)
                .is_none_or(|left| *left == 0))
            .then_some(None),
        }
    }

    /// Whether a call was joined as it is in the whole trace, which shows no result for it.
    fn fits(&self, view: &View<'_>, is_asked: bool, made: &Made<'_>) -> bool {
        let asked = call_of(view, made);
        let asked_id = asked.and_then(|call| call.call_id.as_deref());
        let mut ids = view.call_id.into_iter().chain(asked_id);
        let lacks = lacks(view.result, view.failed, view.error);
        asked.is_some() == is_asked && !(lacks && ids.any(|id| self.given_ids.contains(&id_of(id))))
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
        if !(is_last && self.speaks && self.waiting == 0 && view.is_answered()) || may_be_a_persons
        {
            return false;
        }
        let mut ids = HashSet::default();
        view.calls().all(|call| {
            let id = told(call.call_id.as_ref()).map(id_of);
            let is_new = id.is_none_or(|id| {
                !self.asked.contains_key(&id) && !self.tools.contains(&id) && ids.insert(id)
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
        let Some(id) = given.result.call_id.as_deref().map(id_of) else {
            return false;
        };
        let is_known = |call| self.given_calls.contains(&hash_of(parts_of(call)));
        let is_first = !self.given_ids.contains(&id) || !given.call.is_none_or(is_known);
        self.lacking.contains(&id) && is_first
    }

    fn note_call(&mut self, view: &View<'_>, made: &Made<'_>) {
        let asked = call_of(view, made);
        let id = view.call_id.map(id_of);
        let joined = id.and_then(|id| Some((id, self.asked.get_mut(&id)?.as_mut()?)));
        match joined {
            Some((id, one)) if !one.has_span => {
                one.has_span = true;
                self.waiting -= 1;
                self.lacking.remove(&id);
                if let Some(left) = asked.and_then(|call| self.names.get_mut(&call.name)) {
                    *left -= 1;
                }
            }
            Some(_) => {}
            None => {
                self.alone.insert(view.name().to_owned());
            }
        }
        self.tools.extend(id);
        self.note_lack(view, asked.and_then(|call| call.call_id.as_deref()));
    }

    fn note_response(&mut self, view: &View<'_>, session: &str) {
        self.note_model(view.span, session);
        for call in view.calls() {
            self.waiting += 1;
            *self.names.entry(call.name.clone()).or_default() += 1;
            if let Some(id) = told(call.call_id.as_ref()).map(id_of) {
                let model = view.id().to_owned();
                let has_span = false;
                self.asked.insert(id, Some(Asked { model, has_span }));
                self.lacking.insert(id);
            }
        }
    }
}

fn id_of(call_id: &str) -> u64 {
    hash_of(written_id(call_id))
}

/// Whether a view is a span of no kind that may turn out to be a call.
fn is_spare(view: &View<'_>) -> bool {
    !view.span.tells_of_turns(view.kind) && view.arguments.is_some()
}

/// The call that was joined with a span.
fn call_of<'a>(view: &View<'_>, made: &Made<'a>) -> Option<&'a ToolCall> {
    let calls = &made.calls;
    let tool = calls.tools.iter().position(|tool| tool.id() == view.id())?;
    Some(calls.asked[calls.matched[tool]?].call)
}

/// A span, the spans around it, and that of the model that asked for it; `None` if they are too many.
fn part<'a>(
    span: &'a Span,
    asking: Option<&'a Span>,
    trace: &'a LiveTrace,
    ties: &'a Ties,
    user: Option<&'a str>,
) -> Option<Tree<'a>> {
    let (mut ended, mut open) = (vec![span], Vec::new());
    let mut parent = span.fields.parent_span_id.as_deref();
    while let Some((above, is_over)) = parent.and_then(|id| trace.named(id)) {
        if ended.len() + open.len() > ANCESTORS_MAX {
            return None;
        }
        if is_over { &mut ended } else { &mut open }.push(above);
        parent = above.fields.parent_span_id.as_deref();
    }
    let is_there = |asking: &&Span| ended.iter().any(|each| std::ptr::eq(*each, *asking));
    let asking = asking.filter(|asking| !is_there(asking));
    ended.extend(asking);
    ended.sort_by(|one, other| one.place().cmp(&other.place()));
    Some(Tree::part(&ended, &open, ties, user))
}

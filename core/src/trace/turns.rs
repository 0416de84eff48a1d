//! The turns of a trace: one for each call, response, hand-off, attempt and message of a person.

use std::borrow::Cow;
use std::cell::RefCell;

use foldhash::HashSet;

use super::agents::{AgentRuns, NOBODY};
use super::calls::{Asked, Calls};
use super::draft::Draft;
use super::failure::{fill_result, lacks};
use super::history::{CallParts, Found, parts_of};
use super::records::Told;
use super::sessions::Sessions;
use super::span::{Place, hash_of};
use super::turn::{Kind, Turn, key_hash, lent};
use super::view::View;
use crate::fields::figures::Tokens;
use crate::fields::made_ids::is_made;
use crate::fields::message::ToolCall;
use crate::fields::span_fields::Role;

/// The turns of a trace, and which spans of no kind are calls among them.
pub struct Made<'t> {
    /// In no order.
    pub turns: Vec<Turn<'t>>,
    /// Places of spans of no kind that a model asked for.
    pub adopted: Vec<Place>,
    /// Places of records that repeat what a span shows.
    pub repeats: Vec<Place>,
    /// Sessions in which results that other traces show may change it.
    pub waits_in: HashSet<&'t str>,
    /// The models that speak, in order.
    pub models: Vec<&'t View<'t>>,
    /// What they asked for.
    pub calls: Calls<'t>,
    /// Which of these are held back.
    pub held_back: Vec<usize>,
}

/// Whether a turn is told as it is, by hashes of its key and its content, and its task.
pub type IsTold<'k> = &'k mut dyn FnMut(u64, u64, &str) -> bool;

/// The turns of a trace, without calls and responses that are told as they are. A trace that has
/// not `ended` holds back the calls of its last response until their results are known, because
/// they may get spans of their own.
pub fn turns_of<'t>(
    draft: &'t Draft<'t>,
    sessions: &'t Sessions,
    ended: bool,
    is_told: IsTold<'_>,
) -> Made<'t> {
    let (mut models, mut tools, mut spare) = (Vec::new(), Vec::new(), Vec::new());
    let (mut agents, mut others) = (Vec::new(), Vec::new());
    for view in &draft.views {
        if !view.span.tells_of_turns(view.kind) {
            if view.arguments.is_some() {
                spare.push(view);
            }
            continue;
        }
        if view.span.tells_of_turns(None) {
            others.push(view);
        }
        match view.kind {
            Some(Role::Tool) if !view.fields().is_part => tools.push(view),
            Some(Role::Model) if view.speaks(&draft.tree) => models.push(view),
            Some(Role::Agent) => agents.push(view),
            _ => {}
        }
    }
    let replays = draft.is_whole() && sessions.is_first(draft.trace_id());
    let calls = Calls::new(&models, tools, spare, &draft.tree, replays);
    let mut starts: Vec<i64> = models.iter().map(|model| model.fields().start_ns).collect();
    starts.sort_unstable();
    let steps = models
        .iter()
        .map(|model| model.calls().nth(1).is_some())
        .collect();
    let maker = Maker {
        draft,
        sessions,
        models: &models,
        calls: &calls,
        starts,
        steps,
        waits_in: RefCell::default(),
        held_back: Vec::new(),
    };
    let (turns, waits_in, held_back) = maker.made(&agents, &others, ended, is_told);
    let adopted = calls.tools[calls.adopted..].iter().map(|tool| tool.place);
    let reports = draft.views.iter().filter(|view| {
        let session = &draft.tree.frames.session(view.place).name;
        sessions.records.repeats(session, view)
    });
    Made {
        turns,
        adopted: adopted.collect(),
        repeats: reports.map(|view| view.place).collect(),
        waits_in,
        held_back,
        models,
        calls,
    }
}

/// Makes the turns of a trace.
pub(super) struct Maker<'t, 'm> {
    draft: &'t Draft<'t>,
    sessions: &'t Sessions,
    models: &'m [&'t View<'t>],
    calls: &'m Calls<'t>,
    starts: Vec<i64>,
    steps: Vec<bool>, // of each model, whether its calls are parallel
    waits_in: RefCell<HashSet<&'t str>>,
    held_back: Vec<usize>,
}

impl<'t> Maker<'t, '_> {
    fn made(
        mut self,
        agents: &[&'t View<'t>],
        others: &[&'t View<'t>],
        ended: bool,
        is_told: IsTold<'_>,
    ) -> (Vec<Turn<'t>>, HashSet<&'t str>, Vec<usize>) {
        let mut turns = Vec::new();
        for model in self.models {
            turns.extend(self.model_turn(model, is_told));
        }
        for tool in 0..self.calls.tools.len() {
            turns.extend(self.tool_turn(tool, is_told));
        }
        let mut has_span = vec![false; self.calls.asked.len()];
        for index in self.calls.matched.iter().flatten() {
            has_span[*index] = true;
        }
        for index in (0..has_span.len()).filter(|index| !has_span[*index]) {
            if self.has_span_elsewhere(index) {
                continue;
            }
            if ended || self.is_over(index) {
                turns.push(self.call_turn(index));
            } else {
                self.held_back.push(index);
            }
        }
        let acting = self.acting();
        let runs = AgentRuns::new(agents, &self.draft.tree, &acting, ended);
        turns.extend(
            runs.handoffs
                .iter()
                .map(|(run, caller)| self.handoff_turn(run, caller)),
        );
        let messages = runs.messages(self.models, &self.draft.tree);
        let messages = messages.into_iter().filter(|view| {
            let records = &self.sessions.records;
            !records.has_message(self.session(view), view)
        });
        turns.extend(messages.map(|view| self.user_turn(view)));
        for view in others {
            self.add_others(view, &mut turns);
        }
        (turns, self.waits_in.take(), self.held_back)
    }

    fn session(&self, view: &View<'t>) -> &str {
        &self.draft.tree.frames.session(view.place).name
    }

    /// What a record of a log tells of a span.
    fn record(&self, view: &View<'t>) -> Option<&'t Told> {
        self.sessions.records.of_span(self.session(view), view)
    }

    /// Whether a view is a record of what a span shows.
    fn repeats(&self, view: &View<'t>) -> bool {
        self.sessions.records.repeats(self.session(view), view)
    }

    fn wait_in(&self, place: Place) {
        let session = &self.draft.tree.frames.session(place).name;
        self.waits_in.borrow_mut().insert(session);
    }

    /// The task of a span.
    fn task(&self, place: Place) -> &'t str {
        let tree = &self.draft.tree;
        let declared = tree.frames.of(place).task;
        declared.map_or(&*tree.frames.session(place).name, |declared| {
            tree.root_of(declared)
        })
    }

    /// A hash of all that a span tells and inherits.
    pub(super) fn content(&self, view: &View<'t>) -> u64 {
        hash_of((view.content, self.draft.tree.frames.hash(view.place)))
    }

    /// The agents that speak or call.
    fn acting(&self) -> HashSet<&'t str> {
        let models = self.models.iter().map(|model| model.place);
        let places = models.chain(self.calls.tools.iter().map(|tool| tool.place));
        places
            .filter_map(|place| self.draft.tree.frames.of(place).agent)
            .collect()
    }

    pub(super) fn turn(&self, view: &View<'t>, kind: Kind) -> Turn<'t> {
        let (tree, fields) = (&self.draft.tree, view.fields());
        let (frame, session) = (tree.frames.of(view.place), tree.frames.session(view.place));
        let task = self.task(view.place);
        // A span of no kind may be a call.
        let role = if kind == Kind::Tool {
            Some(Role::Tool)
        } else {
            view.kind
        };
        let (phase, phase_start_ns) = tree.phase(view.place, role);
        let figures = fields.rare.as_ref().map(|rare| &rare.figures);
        let measures = matches!(kind, Kind::Tool | Kind::Attempt | Kind::Progress);
        Turn {
            task: Cow::Borrowed(task),
            subtask: lent(frame.task.filter(|declared| *declared != task)),
            task_kind: lent(frame.task_kind),
            session: Cow::Borrowed(&session.id),
            payer: lent(frame.payer.filter(|payer| *payer != session.id)),
            session_name: Cow::Borrowed(&session.name),
            trace_id: Cow::Borrowed(&fields.trace_id),
            span_id: Cow::Borrowed(&fields.span_id),
            kind,
            call_id: None,
            user: lent(frame.user),
            agent: Cow::Borrowed(frame.agent.unwrap_or(NOBODY)),
            name: lent(Some(view.name())),
            phase: lent(phase),
            phase_start_ns,
            iteration: lent(frame.iteration),
            arguments: None,
            result: None,
            failed: view.failed,
            error_type: lent(view.error_type),
            error: lent(view.error),
            trace: lent(view.stacktrace),
            text: None,
            response: None,
            talks_on: None,
            step: None,
            start_ns: fields.start_ns,
            end_ns: view.end_ns,
            finish_reason: None,
            service_tier: None,
            compacted: None,
            tokens: Tokens::default(),
            figures: figures
                .filter(|figures| measures && figures.known())
                .map(Cow::Borrowed),
            service: lent(fields.service.as_deref()),
            content: self.content(view),
        }
    }

    /// The turn of a response, unless it is told as it is.
    fn model_turn(&self, view: &View<'t>, is_told: IsTold<'_>) -> Option<Turn<'t>> {
        let record = self.record(view);
        let content = hash_of((self.content(view), record.map(|record| record.hash)));
        let key = key_hash(view.id(), Kind::Model, None);
        if self.repeats(view) || is_told(key, content, self.task(view.place)) {
            return None;
        }
        let mut turn = Turn {
            text: view.answered.fields.text(),
            arguments: lent(view.heard.said().news.as_deref()),
            response: lent(view.answered.said().response.as_deref()),
            talks_on: lent(view.talks_on()),
            finish_reason: lent(view.finish_reason),
            service_tier: lent(view.service_tier),
            compacted: view.compacted,
            tokens: view.tokens,
            content,
            ..self.turn(view, Kind::Model)
        };
        if let Some(record) = record {
            record.fill(&mut turn);
        }
        Some(turn)
    }

    /// The turn of a tool's span, unless it is told as it is.
    fn tool_turn(&self, tool: usize, is_told: IsTold<'_>) -> Option<Turn<'t>> {
        let view = self.calls.tools[tool];
        if self.repeats(view) {
            return None;
        }
        let record = self.record(view);
        let asked = self.calls.matched[tool].map(|index| self.calls.asked[index]);
        let name = asked.map_or(view.name(), |asked| asked_name(view, asked.call));
        let asked_id = asked.and_then(|asked| asked.call.call_id.as_deref());
        let asked_id = asked_id.filter(|id| !id.is_empty());
        let call_id = asked_id.filter(|id| !is_made(id)).or(view.call_id);
        let arguments = self.calls.arguments(tool);
        let step = asked.and_then(|asked| self.step(asked, view.fields().start_ns));
        let lacks = lacks(view.result, view.failed, view.error);
        let found = lacks.then(|| {
            let call_id = asked_id.or(view.call_id);
            self.found(view.place, (call_id, name, arguments))
        });
        let found = found.flatten();
        let told = found.map(|(result, hash, _)| (hash, result.failed));
        let content = hash_of((
            self.content(view),
            asked.map(|asked| asked.call),
            step,
            told,
            record.map(|record| record.hash),
        ));
        let key = key_hash(view.id(), Kind::Tool, call_id);
        if is_told(key, content, self.task(view.place)) {
            return None;
        }
        let mut turn = Turn {
            name: lent(Some(name)),
            call_id: lent(call_id),
            arguments: lent(arguments),
            result: lent(view.result),
            step: lent(step),
            ..self.turn(view, Kind::Tool)
        };
        if let Some(record) = record {
            record.fill(&mut turn);
        }
        if let Some((result, ..)) = found {
            fill_result(&mut turn, result);
        }
        turn.content = content;
        Some(turn)
    }

    /// The result that a model was given of a call whose own span does not show it, and a hash.
    ///
    /// A result is looked up in the call's trace, by the call, then by its id alone, and then in
    /// other traces of its session. Their history must show the same call under that id, because
    /// some frameworks number the calls of each run alike.
    fn found(&self, place: Place, call: CallParts<'_>) -> Option<Found<'t>> {
        call.0?;
        let own = self.draft.results.of(call);
        own.or_else(|| {
            self.wait_in(place);
            let session = &self.draft.tree.frames.session(place).name;
            self.sessions.result(session, call)
        })
    }

    /// Whether a call whose result its trace does not show has a span in another trace of its
    /// session, which has no response.
    fn has_span_elsewhere(&self, index: usize) -> bool {
        let asked = self.calls.asked[index];
        if self.draft.results.of(parts_of(asked.call)).is_some() {
            return false;
        }
        let place = self.models[asked.model].place;
        self.wait_in(place);
        let session = &self.draft.tree.frames.session(place).name;
        self.sessions.calls.has(session, asked.call)
    }

    /// Whether a call without a span of its own will no longer get one.
    fn is_over(&self, index: usize) -> bool {
        let asked = self.calls.asked[index];
        let model = self.models[asked.model];
        let end_ns = model.fields().end_ns;
        if asked.ago > 0 || self.starts.last().is_some_and(|start| *start >= end_ns) {
            return true;
        }
        self.wait_in(model.place);
        let session = &self.draft.tree.frames.session(model.place).name;
        let found = self.sessions.result(session, parts_of(asked.call));
        found.is_some()
    }

    /// A turn of a call without a span of its own; it ends when the next model starts,
    /// which may be that of another trace.
    fn call_turn(&self, index: usize) -> Turn<'t> {
        let asked = self.calls.asked[index];
        let (call, model) = (asked.call, &self.models[asked.model]);
        let fields = model.fields();
        let later = self.starts.partition_point(|start| *start < fields.end_ns);
        let ago = i64::try_from(asked.ago).unwrap_or(i64::MAX);
        let asked_id = call.call_id.as_deref().filter(|id| !id.is_empty());
        let call_id = asked_id.filter(|id| !is_made(id)).map(Cow::Borrowed);
        let call_id = call_id.unwrap_or_else(|| Cow::Owned(format!("{}-{index}", call.name)));
        let arguments = call.arguments.as_deref();
        let shown_id = asked_id.or(Some(&call_id));
        let found = self.found(model.place, (shown_id, &call.name, arguments));
        let (start_ns, end_ns) = if ago > 0 {
            let past = fields.start_ns.saturating_sub(ago);
            (past, past)
        } else {
            let next = self.starts.get(later).copied();
            let next = next.or(found.map(|(.., asked_ns)| asked_ns));
            (fields.end_ns, next.unwrap_or_default().max(fields.end_ns))
        };
        let step = self.step(asked, start_ns).filter(|_| ago == 0);
        let told = found.map(|(result, hash, _)| (hash, result.failed));
        let content = hash_of((self.content(model), call, step, (start_ns, end_ns), told));
        let mut turn = Turn {
            name: lent(Some(&call.name)),
            call_id: Some(call_id),
            arguments: lent(arguments),
            failed: None,
            error_type: None,
            error: None,
            trace: None,
            step: lent(step),
            start_ns,
            end_ns,
            ..self.turn(model, Kind::Tool)
        };
        if let Some((result, ..)) = found {
            fill_result(&mut turn, result);
        }
        turn.content = content;
        turn
    }

    /// The step of a response's parallel calls; `None` for a single call.
    ///
    /// A call that began after the next response is no part of that one's step. Some producers
    /// write all calls of a run when it is over.
    fn step(&self, asked: Asked<'t>, start_ns: i64) -> Option<&'t str> {
        let model = self.models[asked.model];
        let next = self
            .starts
            .partition_point(|start| *start < model.fields().end_ns);
        let is_late = self.starts.get(next).is_some_and(|next| *next < start_ns);
        (self.steps[asked.model] || is_late).then(|| model.id())
    }
}

/// The name by which a call was asked for, where its span has only a name of its own.
fn asked_name<'t>(view: &View<'t>, call: &'t ToolCall) -> &'t str {
    if view.is_named() {
        view.name()
    } else {
        &call.name
    }
}

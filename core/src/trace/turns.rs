//! The turns of a trace: one for each call, response, hand-off, attempt and message of a person.

use std::borrow::Cow;
use std::cell::Cell;

use foldhash::HashSet;

use super::agents::{AgentRuns, NOBODY};
use super::calls::{Asked, Calls};
use super::draft::Draft;
use super::failure::{fill_result, lacks};
use super::history::{CallParts, Found, parts_of};
use super::sessions::Sessions;
use super::span::hash_of;
use super::tree::Place;
use super::turn::{Kind, Turn, lent};
use super::view::View;
use crate::fields::figures::Tokens;
use crate::fields::span_fields::{Role, SpanFields};

/// The turns of a trace, and which spans of no kind are calls among them.
pub struct Made<'t> {
    /// In no order.
    pub turns: Vec<Turn<'t>>,
    /// Places of spans of no kind that a model asked for.
    pub adopted: Vec<Place>,
    /// Whether results that other traces of its session show may change it.
    pub waits: bool,
}

/// The turns of a trace. One that has not `ended` holds back the calls of its last response until
/// their results are known, because they may get spans of their own.
#[must_use]
pub fn turns_of<'t>(draft: &'t Draft<'t>, sessions: &'t Sessions, ended: bool) -> Made<'t> {
    let (mut models, mut tools, mut spare) = (Vec::new(), Vec::new(), Vec::new());
    let (mut agents, mut others) = (Vec::new(), Vec::new());
    for view in &draft.views {
        if !view.span.tells_of_turns(view.kind) {
            if view.arguments.is_some() {
                spare.push(view.clone());
            }
            continue;
        }
        if has_status(view.fields())
            || !view.fields().interventions.is_empty()
            || view.fields().figures.known()
        {
            others.push(view);
        }
        match view.kind {
            Some(Role::Tool) if !view.fields().is_part => tools.push(view.clone()),
            Some(Role::Model) if view.speaks() => models.push(view.clone()),
            Some(Role::Agent) => agents.push(view.clone()),
            _ => {}
        }
    }
    let replays = sessions.is_first(draft.trace_id());
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
        borrows: Cell::new(false),
    };
    maker.made(&agents, &others, ended)
}

fn has_status(fields: &SpanFields) -> bool {
    fields
        .status
        .as_ref()
        .is_some_and(|status| !status.is_empty())
}

struct Maker<'t, 'm> {
    draft: &'t Draft<'t>,
    sessions: &'t Sessions,
    models: &'m [View<'t>],
    calls: &'m Calls<'t>,
    starts: Vec<i64>,
    steps: Vec<bool>,    // of each model, whether its calls are parallel
    borrows: Cell<bool>, // whether a result comes from its session
}

impl<'t> Maker<'t, '_> {
    fn made(&self, agents: &[View<'t>], others: &[&View<'t>], ended: bool) -> Made<'t> {
        let mut turns: Vec<Turn<'t>> = self
            .models
            .iter()
            .map(|model| self.model_turn(model))
            .collect();
        turns.extend((0..self.calls.tools.len()).map(|tool| self.tool_turn(tool)));
        let mut has_span = vec![false; self.calls.asked.len()];
        for index in self.calls.matched.iter().flatten() {
            has_span[*index] = true;
        }
        let mut is_held = false;
        for index in (0..has_span.len()).filter(|index| !has_span[*index]) {
            if ended || self.is_over(index) {
                turns.push(self.call_turn(index));
            } else {
                is_held = true;
            }
        }
        let acting: HashSet<String> = turns.iter().map(|turn| turn.agent.to_string()).collect();
        let runs = AgentRuns::new(agents, &self.draft.tree, &acting, ended);
        turns.extend(
            runs.handoffs
                .iter()
                .map(|(run, caller)| self.handoff_turn(run, caller)),
        );
        let messages = runs.messages(self.models, &self.draft.tree);
        turns.extend(messages.into_iter().map(|view| self.user_turn(view)));
        for view in others {
            self.add_others(view, &mut turns);
        }
        for turn in &mut turns {
            self.fill(turn);
        }
        let waits = is_held || self.borrows.get() || turns.iter().any(lacks);
        let adopted = self.calls.tools[self.calls.adopted..]
            .iter()
            .map(|tool| tool.place);
        Made {
            adopted: adopted.collect(),
            turns,
            waits,
        }
    }

    fn turn(&self, view: &View<'t>, kind: Kind) -> Turn<'t> {
        let (tree, fields) = (&self.draft.tree, view.fields());
        let (declared, session) = (tree.declared_task(view.place), tree.session(view.place));
        let task = declared.map_or(&*session.name, |declared| tree.root_of(declared));
        let (phase, phase_start_ns) = tree.phase(view.place, view.kind);
        let measures = matches!(kind, Kind::Tool | Kind::Attempt | Kind::Progress);
        Turn {
            task: Cow::Borrowed(task),
            subtask: lent(declared.filter(|declared| *declared != task)),
            task_kind: lent(tree.task_kind(view.place)),
            session: Cow::Borrowed(&session.id),
            session_name: Cow::Borrowed(&session.name),
            trace_id: Cow::Borrowed(&fields.trace_id),
            span_id: Cow::Borrowed(&fields.span_id),
            kind,
            call_id: None,
            agent: Cow::Borrowed(tree.agent(view.place)),
            name: lent(Some(&fields.name)),
            phase: lent(phase),
            phase_start_ns,
            iteration: lent(tree.iteration(view.place)),
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
            end_ns: fields.end_ns,
            finish_reason: None,
            compacted: None,
            tokens: Tokens::default(),
            figures: (measures && fields.figures.known()).then_some(Cow::Borrowed(&fields.figures)),
            service: lent(fields.service.as_deref()),
            content: view.content,
        }
    }

    fn model_turn(&self, view: &View<'t>) -> Turn<'t> {
        Turn {
            text: view.answered.fields.text(),
            arguments: lent(view.heard.said.news.as_deref()),
            response: lent(view.answered.said.response.as_deref()),
            talks_on: lent(view.talks_on()),
            finish_reason: lent(view.finish_reason),
            compacted: view.compacted,
            tokens: view.tokens,
            ..self.turn(view, Kind::Model)
        }
    }

    fn tool_turn(&self, tool: usize) -> Turn<'t> {
        let view = &self.calls.tools[tool];
        let asked = self.calls.matched[tool].map(|index| self.calls.asked[index]);
        let asked_id = asked.and_then(|asked| asked.call.call_id.as_deref());
        let call_id = asked_id.filter(|id| !id.is_empty()).or(view.call_id);
        let turn = self.turn(view, Kind::Tool);
        Turn {
            call_id: lent(call_id),
            arguments: lent(self.calls.arguments(tool)),
            result: lent(view.result),
            step: lent(asked.and_then(|asked| self.step(asked))),
            content: hash_of((turn.content, asked.map(|asked| asked.call))),
            ..turn
        }
    }

    /// Whether a call without a span of its own will no longer get one.
    fn is_over(&self, index: usize) -> bool {
        let asked = self.calls.asked[index];
        let model = &self.models[asked.model];
        let session = &self.draft.tree.session(model.place).name;
        asked.ago > 0
            || self
                .starts
                .last()
                .is_some_and(|start| *start >= model.fields().end_ns)
            || self.in_session(session, parts_of(asked.call)).is_some()
    }

    /// A result that other traces of the session may have shown.
    fn in_session(&self, session: &str, call: CallParts<'_>) -> Option<Found<'t>> {
        let found = self.sessions.result(session, call)?;
        self.borrows.set(true);
        Some(found)
    }

    /// A turn of a call without a span of its own; it ends when the next model starts.
    fn call_turn(&self, index: usize) -> Turn<'t> {
        let asked = self.calls.asked[index];
        let (call, model) = (asked.call, &self.models[asked.model]);
        let fields = model.fields();
        let later = self.starts.partition_point(|start| *start < fields.end_ns);
        let ago = i64::try_from(asked.ago).unwrap_or(i64::MAX);
        let (start_ns, end_ns) = if ago > 0 {
            let past = fields.start_ns.saturating_sub(ago);
            (past, past)
        } else {
            (
                fields.end_ns,
                self.starts.get(later).copied().unwrap_or(fields.end_ns),
            )
        };
        let call_id = call
            .call_id
            .as_deref()
            .filter(|id| !id.is_empty())
            .map(Cow::Borrowed);
        Turn {
            name: lent(Some(&call.name)),
            call_id: Some(call_id.unwrap_or_else(|| Cow::Owned(format!("{}-{index}", call.name)))),
            arguments: lent(call.arguments.as_deref()),
            failed: None,
            error_type: None,
            error: None,
            trace: None,
            step: lent(self.step(asked).filter(|_| ago == 0)),
            start_ns,
            end_ns,
            content: hash_of((model.content, call)),
            ..self.turn(model, Kind::Tool)
        }
    }

    /// The step of a response's parallel calls; `None` for a single call.
    fn step(&self, asked: Asked<'t>) -> Option<&'t str> {
        self.steps[asked.model].then(|| self.models[asked.model].id())
    }

    fn handoff_turn(&self, run: &View<'t>, caller: &'t str) -> Turn<'t> {
        let asked = run.message();
        Turn {
            agent: Cow::Borrowed(caller),
            name: lent(run.fields().agent.as_deref()),
            arguments: lent(asked),
            // What a program passes on is said by no agent, and repeats the words of other agents.
            text: lent(asked.filter(|_| caller != NOBODY)),
            result: run.answered.fields.text(),
            ..self.turn(run, Kind::Handoff)
        }
    }

    fn user_turn(&self, view: &View<'t>) -> Turn<'t> {
        let fields = view.fields();
        Turn {
            agent: Cow::Borrowed(""),
            name: None,
            text: lent(view.message()),
            arguments: lent(view.heard.comes_again()),
            failed: None,
            error_type: None,
            error: None,
            trace: None,
            // A message starts before its span, because the span may have taken no time.
            start_ns: fields.start_ns.saturating_sub(1),
            end_ns: fields.start_ns,
            ..self.turn(view, Kind::User)
        }
    }

    /// Add attempts, progress, and messages of persons who stepped in.
    fn add_others(&self, view: &View<'t>, turns: &mut Vec<Turn<'t>>) {
        let fields = view.fields();
        if has_status(fields) {
            let attempt = Turn {
                name: lent(fields.status.as_deref()),
                arguments: lent(fields.blockers.as_deref()),
                result: lent(fields.completed_work.as_deref()),
                ..self.turn(view, Kind::Attempt)
            };
            // In the session it is one of several tasks, and an agent may switch between them.
            if attempt.task != attempt.session_name {
                turns.push(Turn {
                    kind: Kind::Switch,
                    subtask: attempt.subtask.clone().or(Some(attempt.task.clone())),
                    task: attempt.session_name.clone(),
                    ..attempt.clone()
                });
            }
            turns.push(attempt);
        } else if fields.figures.known() && view.kind.is_none() {
            turns.push(Turn {
                name: None,
                ..self.turn(view, Kind::Progress)
            });
        }
        for (number, done) in fields.interventions.iter().enumerate() {
            turns.push(Turn {
                call_id: Some(Cow::Owned(format!("intervention-{number}"))),
                agent: Cow::Borrowed(""),
                failed: None,
                error_type: None,
                error: None,
                name: lent(done.decision.as_deref()),
                text: lent(done.note.as_deref()),
                start_ns: done.at_ns,
                end_ns: done.at_ns,
                ..self.turn(view, Kind::User)
            });
        }
    }

    /// Add the result that a model was given to a call whose own span does not show it, and hash.
    ///
    /// A result is looked up in the call's trace, by the call, then by its id alone, and then in
    /// other traces of its session. Their history must show the same call under that id, because
    /// some frameworks number the calls of each run alike.
    fn fill(&self, turn: &mut Turn<'t>) {
        let mut told = None;
        if turn.call_id.is_some() && lacks(turn) {
            let call: CallParts<'_> = (
                turn.call_id.as_deref(),
                turn.name.as_deref().unwrap_or_default(),
                turn.arguments.as_deref(),
            );
            let found = self.draft.results.of(call);
            let found = found.or_else(|| self.in_session(&turn.session_name, call));
            if let Some((result, hash)) = found {
                told = Some((hash, result.failed));
                fill_result(turn, result);
            }
        }
        let names = (
            turn.kind,
            &turn.subtask,
            &turn.task_kind,
            &turn.session,
            &turn.session_name,
        );
        let place = (
            &turn.agent,
            &turn.name,
            &turn.phase,
            turn.phase_start_ns,
            &turn.iteration,
        );
        let what = (&turn.call_id, &turn.step, turn.start_ns, turn.end_ns);
        turn.content = hash_of((turn.content, names, place, what, told));
    }
}

//! The turns that are neither calls nor responses: hand-offs, words of persons, attempts, progress.

use std::borrow::Cow;

use super::agents::NOBODY;
use super::span::hash_of;
use super::turn::{Kind, Turn, lent};
use super::turns::Maker;
use super::view::View;

impl<'t> Maker<'t, '_> {
    pub(super) fn handoff_turn(&self, run: &View<'t>, caller: &'t str) -> Turn<'t> {
        let asked = run.message();
        Turn {
            content: hash_of((self.content(run), caller)),
            agent: Cow::Borrowed(caller),
            name: lent(run.fields().agent.as_deref()),
            arguments: lent(asked),
            // What a program passes on is said by no agent, and repeats the words of other agents.
            text: lent(asked.filter(|_| caller != NOBODY)),
            result: run.answered.fields.text(),
            ..self.turn(run, Kind::Handoff)
        }
    }

    pub(super) fn user_turn(&self, view: &View<'t>) -> Turn<'t> {
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
    pub(super) fn add_others(&self, view: &View<'t>, turns: &mut Vec<Turn<'t>>) {
        let rare = view.fields().rare();
        if rare.has_status() {
            let attempt = Turn {
                name: lent(rare.status.as_deref()),
                arguments: lent(rare.blockers.as_deref()),
                result: lent(rare.completed_work.as_deref()),
                ..self.turn(view, Kind::Attempt)
            };
            // In the session it is one of several tasks, and an agent may switch between them.
            if attempt.task != attempt.session_name {
                turns.push(Turn {
                    kind: Kind::Switch,
                    content: hash_of((attempt.content, &attempt.task)),
                    subtask: attempt.subtask.clone().or(Some(attempt.task.clone())),
                    task: attempt.session_name.clone(),
                    ..attempt.clone()
                });
            }
            turns.push(attempt);
        } else if rare.figures.known() && view.kind.is_none() {
            turns.push(Turn {
                name: None,
                ..self.turn(view, Kind::Progress)
            });
        }
        for (number, done) in rare.interventions.iter().enumerate() {
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
}

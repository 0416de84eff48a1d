//! The counts of one task up to a turn; the next turn continues them.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::agent::{Agent, Waits};
use super::codes::UNKNOWN;
use super::drafts::{Drafts, Verdicts};
use super::epoch::Epoch;
use super::how::{Counting, Messages};
use super::marks::{Marked, mark};
use super::row::{RESETS, Row, SPEAKERS, STATUSES, place};
use super::steps::Steps;
use super::turn::Turn;
use super::undone::Trials;
use super::wishes::Wish;

/// What is needed of the turn before.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Before {
    end_ns: i64,
    trace: i64,
    repeated: i64,
    /// An attempt that completed the task.
    done: bool,
}

/// The counts of one task up to a turn.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Task {
    turn: i64,
    resets: i64,
    resets_seen: i64,
    waits_seen: i64,
    changes_seen: i64,
    calls_seen: i64,
    works_seen: i64,
    input_total: i64,
    output_total: i64,
    before: Option<Before>,
    /// How long the task stood still before the messages since its last other turn.
    #[serde(default)]
    heard_ns: i64,
    /// The trace of the last attempt.
    attempt_trace: Option<i64>,
    /// The words of earlier messages, the oldest first.
    messages: VecDeque<i64>,
    /// In boxes, because most tasks have one agent, and a map makes room for more.
    agents: BTreeMap<i64, Box<Agent>>,
    /// The longest wait with each tool.
    usual_ns: BTreeMap<i64, i64>,
    steps: Steps,
    #[serde(default)]
    trials: Trials,
    /// What the last message asks for.
    #[serde(default)]
    wish: Wish,
    #[serde(default)]
    drafts: Drafts,
    #[serde(default)]
    verdicts: Verdicts,
    epoch: Epoch,
}

impl Task {
    /// Count the next turn.
    pub fn count(&mut self, turn: &Turn, how: &Counting) -> Row {
        self.add(mark(turn, how), how)
    }

    /// Count the next turn, which is coded and marked.
    pub fn add(&mut self, mut one: Marked, how: &Counting) -> Row {
        self.speak(&mut one, how);
        self.reset(&mut one, how);
        let begins = one.row.reset != UNKNOWN || self.before.is_none();
        if begins {
            self.epoch = Epoch::default();
        } else if let Some(before) = &self.before {
            self.epoch.work(&one.row, one.start_ns, before.end_ns);
        }
        let agent = self.agents.entry(one.row.agent).or_default();
        agent.unmake(&mut one.row, &one.ids);
        self.number(&mut one);
        self.drafts.judge(&mut one.row, &one.texts);
        self.trials.mark(&mut one.row);
        let idle_ns = self.idle_ns(one.start_ns);
        let quiet_ns = self.quiet_ns(&one.row, idle_ns);
        let agent = self.agents.entry(one.row.agent).or_default();
        let waits = Waits {
            idle_ns,
            quiet_ns,
            seen: &mut self.waits_seen,
            usual_ns: &mut self.usual_ns,
            wish: self.wish,
        };
        agent.wait(&mut one.row, one.start_ns, waits, how);
        agent.guess(&mut one.row);
        agent.settle(&mut one.row);
        if let Some(read) = one.read.take() {
            agent.read(&mut one.row, read);
        }
        if let Some(asked) = one.asked.take() {
            agent.search(&mut one.row, *asked);
        } else {
            agent.act(&mut one.row);
        }
        agent.fulfil(&mut one.row, self.wish);
        self.steps.mark(&mut one);
        let improves = self.epoch.progress(&mut one);
        self.epoch.attempt(&mut one.row, improves);
        self.epoch.spending.spend(&mut one);
        let since = self.before.as_ref().filter(|_| !begins);
        let declared = since.is_some_and(|before| one.phase_start_ns >= before.end_ns);
        self.epoch.visit(&mut one, declared);
        self.end(&one);
        one.row
    }

    /// Forget what is only needed for turns that may still move, which stand at or after this.
    pub fn settle(&mut self, since_ns: i64) {
        self.steps.settle(since_ns);
    }

    fn idle_ns(&self, start_ns: i64) -> Option<i64> {
        let before = self.before.as_ref()?;
        Some(start_ns.saturating_sub(before.end_ns))
    }

    /// How long it was quiet before a turn and the messages directly before it.
    fn quiet_ns(&mut self, row: &Row, idle_ns: Option<i64>) -> i64 {
        let quiet_ns = self.heard_ns.saturating_add(idle_ns.unwrap_or(0).max(0));
        self.heard_ns = if row.is("user") { quiet_ns } else { 0 };
        quiet_ns
    }

    /// Set the author of a message.
    fn speak(&mut self, one: &mut Marked, how: &Counting) {
        let row = &mut one.row;
        if row.brief && row.reminded == UNKNOWN {
            row.reminded = self.before.as_ref().map_or(UNKNOWN, |turn| turn.repeated);
        }
        self.verdicts.hear(row);
        if !row.is("user") {
            return;
        }
        if self.wish != one.wish {
            self.agents.values_mut().for_each(|agent| agent.wish_anew());
        }
        self.wish = one.wish;
        let place_before = self.messages.iter().position(|words| *words == row.call);
        let again = place_before.is_some() || one.repeated != UNKNOWN;
        let trace = self.before.as_ref().map(|turn| turn.trace);
        let attempted = self.attempt_trace.is_some() && self.attempt_trace == trace;
        let speaker = match how.messages {
            _ if one.has_id => "intervention",
            Messages::All => "message",
            Messages::None => "setting",
            Messages::New if again => "same_words",
            Messages::New if attempted => "attempts",
            Messages::New => "message",
        };
        row.speaker = place(&SPEAKERS, speaker);
        if !one.has_id && row.call != UNKNOWN {
            // The newest message is forgotten last.
            place_before.and_then(|at| self.messages.remove(at));
            self.messages.push_back(row.call);
            if self.messages.len() > how.messages_kept {
                self.messages.pop_front();
            }
        }
    }

    /// Set why counts start again at a turn.
    ///
    /// A completion resets the counts for the turns after it. A message stands in place of a person
    /// if messages may not resolve a gate. A run is begun by the same prompt after a pause, or by
    /// anything after a rest.
    fn reset(&mut self, one: &mut Marked, how: &Counting) {
        let idle_ns = self.idle_ns(one.start_ns);
        let row = &mut one.row;
        let said = SPEAKERS.get(usize::try_from(row.speaker - 1).unwrap_or(usize::MAX));
        let run_ns = if said == Some(&"same_words") {
            how.run_pause_ns.min(how.run_rest_ns)
        } else {
            how.run_rest_ns
        };
        let silence_ns = self
            .before
            .as_ref()
            .map(|turn| row.end_ns.saturating_sub(turn.end_ns));
        let reset = if said == Some(&"message") && how.by_decision {
            "message"
        } else if said == Some(&"message") || said == Some(&"intervention") {
            "person"
        } else if silence_ns.is_some_and(|ns| ns > how.idle_ns) {
            "idle"
        } else if idle_ns.is_some_and(|ns| ns >= run_ns) {
            "run"
        } else if self.before.as_ref().is_some_and(|turn| turn.done) {
            "completed"
        } else {
            ""
        };
        row.reset = place(&RESETS, reset);
        self.resets += i64::from(!reset.is_empty());
        // The task goes on in another run, and after a completion.
        self.resets_seen += i64::from(!matches!(reset, "" | "completed" | "run"));
    }

    /// Count turns, calls and tokens.
    fn number(&mut self, one: &mut Marked) {
        let row = &mut one.row;
        self.turn += i64::from(!row.is("user"));
        self.changes_seen += i64::from(row.changes);
        self.works_seen += i64::from(row.works);
        let acts = row.is("tool") && !(row.pauses || row.failed || row.delegates);
        self.calls_seen += i64::from(acts);
        self.input_total = self.input_total.saturating_add(one.input_tokens);
        self.output_total = self.output_total.saturating_add(one.output_tokens);
        let agent = self.agents.entry(row.agent).or_default();
        agent.hand_over(row, self.changes_seen);
        agent.input_sum = agent.input_sum.saturating_add(one.input_tokens);
        agent.output_sum = agent.output_sum.saturating_add(one.output_tokens);
        row.turn = self.turn;
        row.epoch = self.resets;
        row.resets_seen = self.resets_seen;
        row.changes_seen = self.changes_seen;
        row.works_seen = self.works_seen;
        row.calls_seen = self.calls_seen;
        row.input_tokens_total = self.input_total;
        row.output_tokens_total = self.output_total;
        row.input_tokens_sum = agent.input_sum;
        row.output_tokens_sum = agent.output_sum;
    }

    fn end(&mut self, one: &Marked) {
        let row = &one.row;
        if row.is("attempt") || row.is("switch") {
            self.attempt_trace = Some(one.trace);
        }
        let is_done = row.is("attempt") && row.status == place(&STATUSES, "done");
        self.before = Some(Before {
            end_ns: row.end_ns,
            trace: one.trace,
            repeated: one.repeated,
            done: is_done && row.subtask == UNKNOWN,
        });
    }
}

//! Runs of agents, as their spans show them: who asked for each, a person or another agent.
//!
//! A person's message is on the outermost span of a run, where the conventions put it. The spans of
//! models below often repeat it.

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};

use super::span::{Place, follows_answer};
use super::tree::Tree;
use super::view::View;
use crate::count::marks::is_brief;
use crate::fields::said::told;
use crate::fields::span_fields::Role;

/// The agent that asks for the next run of a chain: a program, which has no span.
pub const NOBODY: &str = "";

/// The runs of a trace that somebody is known to have asked for.
#[derive(Default)]
pub struct AgentRuns<'v, 'a> {
    /// With the asking agent.
    pub handoffs: Vec<(&'v View<'a>, &'a str)>,
    // The spans with a person's message, with their outermost spans.
    requests: Vec<(Place, &'v View<'a>)>,
    first: Option<&'v View<'a>>, // the outermost span of the first run
}

impl<'v, 'a> AgentRuns<'v, 'a> {
    /// Who asked for the runs of these agents. The agents that are `acting` speak or call. If the
    /// trace has not `ended`, a span may still come that is around one whose parent is unknown.
    #[must_use]
    pub fn new(
        agents: &[&'v View<'a>],
        tree: &Tree<'a>,
        acting: &HashSet<&str>,
        ended: bool,
    ) -> Self {
        let mut runs = Self::default();
        let mut outermost: Vec<&View<'a>> = Vec::new();
        // The first run with a message within each of them, and the first below each agent.
        let mut within: HashMap<Place, &View<'a>> = HashMap::new();
        let mut firsts: HashMap<Place, Place> = HashMap::new();
        let mut sorted: Vec<&View<'a>> = agents.to_vec();
        sorted.sort_by_key(|run| (run.fields().end_ns, -run.fields().start_ns, run.id()));
        for run in sorted {
            let above: Vec<Place> = tree.ancestors(run.place).collect();
            let mut around = above.iter().copied().filter(|at| tree.kinds[*at].is_some());
            let has_only_agents = around.clone().all(|at| tree.kinds[at] == Some(Role::Agent));
            let top = around.next_back();
            let caller = above
                .iter()
                .find_map(|at| Some((*at, told(tree.fields(*at).agent.as_ref())?)));
            if let Some((caller, name)) = caller.filter(|(_, name)| Some(*name) != agent_of(run)) {
                let is_frame =
                    top == Some(caller) && *firsts.entry(caller).or_insert(run.place) == run.place;
                if acting.contains(name) || asks(caller, run, is_frame, tree) {
                    runs.handoffs.push((run, name));
                    continue;
                }
            }
            if let Some(top) = top {
                if is_asked(run) && has_only_agents {
                    within.entry(top).or_insert(run);
                }
            } else if ended || is_whole(above.last().copied().unwrap_or(run.place), tree) {
                outermost.push(run);
            }
        }
        runs.chain(&outermost, &within, acting);
        runs
    }

    /// Take the runs that no other is around, one after the other.
    ///
    /// An executor of a workflow shows who worked, and the agent within it what was asked.
    fn chain(
        &mut self,
        outermost: &[&'v View<'a>],
        within: &HashMap<Place, &'v View<'a>>,
        acting: &HashSet<&str>,
    ) {
        self.first = outermost.first().copied();
        let mut before: Option<&View<'a>> = None;
        for around in outermost {
            let inner = within.get(&around.place).copied().unwrap_or(around);
            let run = if is_asked(around) { *around } else { inner };
            match before.filter(|before| !talks_on(before, run)) {
                None if is_asked(run) => self.requests.push((around.place, run)),
                None => {}
                Some(before) => {
                    let acts = |run: &View<'_>| agent_of(run).is_some_and(|a| acting.contains(a));
                    if is_next(before, run) && !acts(before) && !acts(run) {
                        self.handoffs.push((run, NOBODY));
                    }
                }
            }
            before = Some(run);
        }
    }

    /// The spans whose last message is a person's, each message once.
    ///
    /// The first is the message that a trace's first response answers. Later messages with the role
    /// of a user are mostly written by the framework; only those that follow a final answer count,
    /// and those that came before and are only heard. The task's messages show whether a person
    /// wrote a message. An agent's span counts where no model's span shows its message, because a
    /// model's ends sooner.
    #[must_use]
    pub fn messages(&self, models: &[&'v View<'a>], tree: &Tree<'a>) -> Vec<&'v View<'a>> {
        let asked: HashSet<Place> = self.handoffs.iter().map(|(run, _)| run.place).collect();
        let requests: HashMap<Place, &View<'a>> = self.requests.iter().copied().collect();
        let has_runs = !(asked.is_empty() && requests.is_empty());
        let mut first: HashMap<Option<Place>, Place> = HashMap::new();
        let mut found: Vec<&View<'a>> = Vec::new();
        let mut told: HashSet<Option<Place>> = HashSet::new();
        let mut said = HashSet::new();
        for (at, model) in models.iter().enumerate() {
            let around: Vec<Place> = if has_runs {
                around_of(model, tree)
            } else {
                Vec::new()
            };
            let outermost = around.last().copied();
            let is_first = *first.entry(outermost).or_insert(model.place) == model.place;
            if (at == 0 || is_later_message(model, |text| said.contains(&text)))
                && is_from_user(model)
                && !around.iter().any(|above| asked.contains(above))
            {
                let run = outermost.and_then(|outermost| requests.get(&outermost));
                if run.is_none_or(|run| is_first || model.message() != run.message()) {
                    found.push(model);
                    told.insert(outermost);
                }
            }
            said.insert(model.answered.fields.text());
        }
        let opening = self.first.and_then(|first| requests.get(&first.place));
        if let (Some(opening), Some(first)) = (opening, found.first())
            && models
                .first()
                .is_some_and(|model| model.place == first.place)
            && first.fields().start_ns < opening.fields().end_ns
        {
            told.insert(self.first.map(|first| first.place));
        }
        let untold = self
            .requests
            .iter()
            .filter(|(outermost, _)| !told.contains(&Some(*outermost)));
        found.extend(untold.map(|(_, run)| *run));
        found
    }
}

fn around_of(model: &View<'_>, tree: &Tree<'_>) -> Vec<Place> {
    tree.ancestors(model.place)
        .filter(|at| tree.kinds[*at].is_some())
        .collect()
}

fn is_whole(top: Place, tree: &Tree<'_>) -> bool {
    tree.fields(top).parent_span_id.is_none()
}

fn agent_of<'a>(run: &View<'a>) -> Option<&'a str> {
    run.fields().agent.as_deref()
}

pub(super) fn is_from_user(model: &View<'_>) -> bool {
    model
        .heard
        .fields
        .heard()
        .last()
        .is_some_and(|message| message.role == "user")
}

/// Whether a later response answers a message and no text that was said before.
fn is_later_message<'a>(
    model: &View<'a>,
    was_said: impl Fn(Option<std::borrow::Cow<'a, str>>) -> bool,
) -> bool {
    if !is_from_user(model) || was_said(model.message().map(std::borrow::Cow::Borrowed)) {
        return false;
    }
    let text = model.answered.fields.text();
    follows_answer(model.heard.fields.heard())
        || (text.is_some_and(|text| is_brief(&text, model.message()))
            && model.heard.comes_again().is_some())
}

/// Whether the last message is from outside; one without any text is none.
fn is_asked(run: &View<'_>) -> bool {
    let last = run.heard.fields.heard().last();
    last.is_some_and(|last| last.role == "user" && last.text.as_deref() != Some(""))
}

/// Whether an agent that neither speaks nor calls asked for a run.
///
/// Some frameworks call a whole run an agent; it is a frame, and the first run within has its
/// message.
fn asks(caller: Place, run: &View<'_>, is_frame: bool, tree: &Tree<'_>) -> bool {
    let Some(asked) = run.message().filter(|asked| !asked.is_empty()) else {
        return false;
    };
    let callers = tree.fields(caller).message();
    !is_frame || callers.is_some_and(|text| !text.is_empty() && text != asked)
}

/// Whether somebody speaks to an agent again, after its final answer.
///
/// A program that lets an agent improve its answer shows it that answer.
fn talks_on(before: &View<'_>, run: &View<'_>) -> bool {
    let is_same = agent_of(before) == agent_of(run)
        && before.fields().end_ns <= run.fields().start_ns
        && before.calls().next().is_none();
    let text = before.answered.fields.text();
    let shows = |text: &str| !text.is_empty() && run.message().unwrap_or("").contains(text);
    is_same && !text.as_deref().is_some_and(shows)
}

/// Whether a program asked for a run after that of another agent.
///
/// What it asked for need not be known.
fn is_next(before: &View<'_>, run: &View<'_>) -> bool {
    let name = |run| agent_of(run).filter(|name: &&str| !name.is_empty());
    let (one, other) = (name(before), name(run));
    let is_other = one.is_some() && other.is_some() && one != other;
    is_other && before.fields().end_ns <= run.fields().start_ns
}

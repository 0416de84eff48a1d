//! What spans inherit from those above them: session, user, task, agent, phase and iteration.
//!
//! A session that spans name below those of another one is paid by that one, the caller's.

use foldhash::HashMap;

use super::span::{Place, Span, hash_of};
use super::ties::{Session, Ties};
use crate::fields::said::told;

/// What a span says itself, or the nearest span above it that says it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Frame<'a> {
    /// The declared task.
    pub task: Option<&'a str>,
    /// Its kind.
    pub task_kind: Option<&'a str>,
    /// The user; where no span around says one, the only one that the trace names.
    pub user: Option<&'a str>,
    /// The agent.
    pub agent: Option<&'a str>,
    /// The span that declares the phase, and the phase.
    pub phase: Option<(Place, &'a str)>,
    /// The declared iteration.
    pub iteration: Option<&'a str>,
    /// The session from whose budget all is paid, if it may be another than the span's own.
    pub payer: Option<&'a str>,
    session: usize,
    named: Option<&'a str>, // the session as spans name it, or that of the caller
    service: Option<&'a str>,
}

/// The frames of the spans of a trace; spans that say nothing share that of their parent.
pub struct Frames<'a> {
    frames: Vec<(Frame<'a>, u64)>, // each with a hash
    of_span: Vec<u32>,
    sessions: Vec<(Named<'a>, Session)>, // the trace's own first
    by_name: HashMap<Named<'a>, usize>,
    of_service: HashMap<&'a str, Option<&'a str>>, // the session that it names, if it is one
}

/// The id of a session, and the service of the span that names it.
type Named<'a> = (&'a str, Option<&'a str>);

const UNKNOWN: u32 = u32::MAX;

impl<'a> Frames<'a> {
    /// Frames in which the spans have the session and the user of their trace and nothing else, so
    /// far.
    #[must_use]
    pub fn new(session: Session, user: Option<&'a str>, spans: &[&'a Span]) -> Self {
        let frame = Frame {
            user,
            ..Frame::default()
        };
        let hash = hash_of((&session.id, &session.name, frame.user));
        Self {
            frames: vec![(frame, hash)],
            of_span: vec![UNKNOWN; spans.len()],
            sessions: vec![(("", None), session)],
            by_name: HashMap::default(),
            of_service: only_sessions(spans),
        }
    }

    /// The only user that the trace names.
    #[must_use]
    pub fn user(&self) -> Option<&'a str> {
        self.frames[0].0.user
    }

    /// Whether the frame of a span is known.
    #[must_use]
    pub fn knows(&self, place: Place) -> bool {
        self.of_span[place] != UNKNOWN
    }

    /// What is around a span.
    #[must_use]
    pub fn of(&self, place: Place) -> &Frame<'a> {
        &self.frames[self.of_span[place] as usize].0
    }

    /// The session of a span.
    #[must_use]
    pub fn session(&self, place: Place) -> &Session {
        &self.sessions[self.of(place).session].1
    }

    /// A hash of all that a span inherits.
    #[must_use]
    pub fn hash(&self, place: Place) -> u64 {
        self.frames[self.of_span[place] as usize].1
    }

    /// Relate a span to those above it, of which the nearest comes last; before them comes the
    /// frame of another span, if any.
    pub fn relate(
        &mut self,
        place: Place,
        around: Option<Place>,
        line: &[Place],
        spans: &[&'a Span],
        ties: &Ties,
    ) {
        let above = around.map_or(0, |around| self.of_span[around]);
        let mut frame = self.frames[above as usize].0;
        let mut says = false;
        for at in line {
            says |= self.say(&mut frame, *at, spans[*at], ties);
        }
        self.of_span[place] = if says {
            self.number(frame, spans)
        } else {
            above
        };
    }

    /// The number of a frame that is another than that of the parent; siblings mostly share one.
    fn number(&mut self, frame: Frame<'a>, spans: &[&'a Span]) -> u32 {
        if self.frames.last().is_none_or(|(last, _)| *last != frame) {
            let phase = frame.phase.map(|(at, phase)| {
                let fields = &spans[at].fields;
                (phase, fields.start_ns, fields.rare().phase_start_ns)
            });
            let session = &self.sessions[frame.session].1;
            let who = (&session.id, &session.name, frame.user, frame.agent);
            let task = (frame.task, frame.task_kind, frame.iteration);
            self.frames
                .push((frame, hash_of((who, frame.payer, task, phase))));
        }
        u32::try_from(self.frames.len() - 1).unwrap_or(0)
    }

    /// Let a span say what it declares; returns whether anything is another than above it.
    fn say(&mut self, frame: &mut Frame<'a>, at: Place, span: &'a Span, ties: &Ties) -> bool {
        let fields = &span.fields;
        let mut says = set(&mut frame.agent, told(fields.agent.as_ref()).map(Some));
        says |= self.pay(frame, span);
        says |= set(&mut frame.user, told(fields.user.as_ref()).map(Some));
        if let Some(id) = told(fields.session.as_ref()) {
            let named = self.named((id, fields.service.as_deref()), ties);
            says |= set(&mut frame.session, Some(named));
        }
        if let Some(rare) = &fields.rare {
            let phase = told(rare.phase.as_ref()).map(|phase| (at, phase));
            says |= set(&mut frame.task, told(rare.task.as_ref()).map(Some));
            says |= set(
                &mut frame.task_kind,
                told(rare.task_kind.as_ref()).map(Some),
            );
            says |= set(
                &mut frame.iteration,
                told(rare.iteration.as_ref()).map(Some),
            );
            says |= set(&mut frame.phase, phase.map(Some));
        }
        says
    }

    /// Say which session pays; returns whether that or the service is another than above.
    fn pay(&self, frame: &mut Frame<'a>, span: &'a Span) -> bool {
        let (fields, before) = (&span.fields, (frame.payer, frame.named, frame.service));
        let service = fields.service.as_deref();
        if service != frame.service {
            // Spans of calls mostly do not name the session of their agent.
            let caller = frame.service.and_then(|above| self.of_service.get(above));
            frame.named = frame.named.or(caller.copied().flatten());
            frame.service = service;
        }
        if let Some(id) = told(fields.session.as_ref()) {
            if let Some(caller) = frame.named.filter(|caller| *caller != id) {
                frame.payer = frame.payer.or(Some(caller));
            }
            frame.named = Some(id);
        }
        frame.payer = told(fields.rare().payer.as_ref()).or(frame.payer);
        before != (frame.payer, frame.named, frame.service)
    }

    fn named(&mut self, name: Named<'a>, ties: &Ties) -> usize {
        let last = self.sessions.len() - 1;
        if self.sessions[last].0 == name {
            return last; // Most producers write the session on each span.
        }
        *self.by_name.entry(name).or_insert_with(|| {
            self.sessions.push((name, ties.named(name.0, name.1)));
            self.sessions.len() - 1
        })
    }
}

/// The user whom the spans of a trace name, if it is one.
pub(super) fn only_user<'a>(spans: impl Iterator<Item = &'a Span>) -> Option<&'a str> {
    let mut users = spans.filter_map(|span| told(span.fields.user.as_ref()));
    let first = users.next()?;
    users.all(|user| user == first).then_some(first)
}

/// The session that the spans of each service name, if it is one.
fn only_sessions<'a>(spans: &[&'a Span]) -> HashMap<&'a str, Option<&'a str>> {
    let mut found = HashMap::default();
    for span in spans {
        if let (Some(service), Some(id)) = (
            span.fields.service.as_deref(),
            told(span.fields.session.as_ref()),
        ) {
            let only = found.entry(service).or_insert(Some(id));
            *only = only.filter(|known| *known == id);
        }
    }
    found
}

/// Replace a value by what is said; returns whether that is another.
fn set<T: PartialEq>(value: &mut T, said: Option<T>) -> bool {
    said.filter(|said| said != value)
        .map(|said| *value = said)
        .is_some()
}

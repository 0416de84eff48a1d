//! What a span's messages say together.

use std::borrow::Cow;
use std::sync::Arc;

use super::message::{Message, ToolCall};
use super::span_fields::SpanFields;

/// It replaces the hash of a response that neither says nor asks for anything.
pub const SILENCE: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// A text that is there and says something, as names are looked at.
#[must_use]
pub fn told<T: AsRef<str>>(text: Option<&T>) -> Option<&str> {
    text.map(AsRef::as_ref).filter(|text| !text.is_empty())
}

impl SpanFields {
    /// The messages that it was given; none where it does not say.
    #[must_use]
    pub fn heard(&self) -> &[Arc<Message>] {
        self.given.as_deref().unwrap_or_default()
    }

    /// The calls that a model's answer asks for.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.answer
            .iter()
            .flatten()
            .flat_map(|message| &message.calls)
    }

    /// Whether a model's answer has results of calls.
    #[must_use]
    pub fn brings_results(&self) -> bool {
        let mut answer = self.answer.iter().flatten();
        answer.any(|message| !message.results.is_empty())
    }

    /// What a model said; "" if it only made calls, `None` if the trace does not say.
    #[must_use]
    pub fn text(&self) -> Option<Cow<'_, str>> {
        let answer = self.answer.as_ref()?;
        if let [only] = answer.as_slice() {
            return only.text.as_deref().map(Cow::Borrowed);
        }
        let texts: Option<Vec<&str>> = answer.iter().map(|each| each.text.as_deref()).collect();
        Some(Cow::Owned(joined(texts?)))
    }

    /// A text that two responses share only if they say and ask for the same things.
    #[must_use]
    pub fn response(&self) -> Option<String> {
        let text = self.text()?;
        let mut lines = vec![text.into_owned()];
        for call in self.calls() {
            lines.push(format!("{}({})", call.name, call.arguments.as_ref()?));
        }
        if lines.len() > 1 || !lines[0].is_empty() {
            return Some(lines.join("\n"));
        }
        let is_silent = self.answer.iter().flatten().all(|message| message.silent);
        is_silent.then(|| SILENCE.to_owned())
    }

    /// What a model was given since it last spoke; `None` if the trace does not say.
    #[must_use]
    pub fn news(&self) -> Option<String> {
        let given = self.heard();
        if given.is_empty() {
            return None;
        }
        let spoke = given
            .iter()
            .rposition(|message| message.role == "assistant");
        let mut news = Vec::new();
        for message in &given[spoke.map_or(0, |place| place + 1)..] {
            for result in message.results.iter().rev() {
                news.push(result.text.as_deref()?);
            }
            news.push(message.text.as_deref()?);
        }
        Some(joined(news))
    }

    /// The last message that an agent or a model was given; `None` if it is unknown.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.heard().last()?.text.as_deref()
    }
}

fn joined(texts: Vec<&str>) -> String {
    let said: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    said.join("\n")
}

//! Ids for the calls of a conversation that names none: the place of each call in it.
//!
//! The APIs of Gemini and Ollama and OpenAI's first one have no such ids, and some callbacks leave
//! them out. Results stand in the order of their calls.

use std::collections::VecDeque;
use std::sync::Arc;

use super::message::{Message, ToolResult};
use super::numbers::Messages;
use super::parts::crc32;
use super::results::result_of;
use super::said::told;
use crate::wire::value::Value;

// No API begins an id so.
const MADE: char = '~';
const ASSISTANT: &str = "assistant";
const TOOL: &str = "tool";
const SYSTEM: &str = "system";

/// Whether an id was made here, and stands in no span.
#[must_use]
pub fn is_made(call_id: &str) -> bool {
    call_id.starts_with(MADE)
}

/// The messages of a conversation as they became, so that each is copied once.
#[derive(Debug, Default)]
pub struct MadeMessages {
    start: u32,
    by_place: Vec<Option<MadeMessage>>,
}

#[derive(Debug)]
struct MadeMessage {
    before: Arc<Message>,
    numbers: Vec<usize>,
    after: Arc<Message>,
}

/// Give ids to the calls and results of a conversation in which none has one.
pub fn give_ids(given: &mut Messages, answer: &mut Messages, known: &mut MadeMessages) {
    let Some(messages) = given.as_mut().filter(|messages| !messages.is_empty()) else {
        return;
    };
    if !lacks_ids(messages.iter().chain(answer.iter().flatten())) {
        return;
    }
    let start = start_of(messages);
    if known.start != start {
        *known = MadeMessages {
            start,
            ..MadeMessages::default()
        };
    }
    let mut places = Places::default();
    for (place, message) in messages.iter_mut().enumerate() {
        let numbers = places.of(message);
        if !numbers.is_empty() {
            *message = known.made(place, message, numbers);
        }
    }
    for message in answer.iter_mut().flatten() {
        let numbers = places.of(message);
        if !numbers.is_empty() {
            *message = Arc::new(with_ids(message, start, &numbers));
        }
    }
}

/// Whether there are calls or results, none of which has an id.
fn lacks_ids<'m>(messages: impl Iterator<Item = &'m Arc<Message>>) -> bool {
    let mut has_any = false;
    for message in messages {
        let calls = message.calls.iter().map(|call| &call.call_id);
        let results = message.results.iter().map(|result| &result.call_id);
        for id in calls.chain(results) {
            if told(id.as_ref()).is_some() {
                return false;
            }
            has_any = true;
        }
        has_any |= message.role == TOOL;
    }
    has_any
}

/// What tells a conversation from others: the first message that is no instruction.
fn start_of(messages: &[Arc<Message>]) -> u32 {
    let first = messages.iter().find(|message| message.role != SYSTEM);
    let text = first.and_then(|message| message.text.as_deref());
    crc32(text.unwrap_or_default().as_bytes())
}

/// The places of calls in a conversation, as far as it was read.
#[derive(Debug, Default)]
struct Places {
    count: usize,
    open: VecDeque<usize>,
    is_answering: bool,
    has_spoken: bool,
}

impl Places {
    /// The places of the calls that a message asks for, then of those whose results it brings.
    fn of(&mut self, message: &Message) -> Vec<usize> {
        let is_result = message.role == TOOL && message.results.is_empty() && self.has_spoken;
        self.has_spoken |= message.role == ASSISTANT;
        let results = message.results.len() + usize::from(is_result);
        if message.calls.is_empty() && results == 0 {
            if message.role != ASSISTANT {
                self.open.clear(); // What a person says ends the calls before.
            }
            return Vec::new();
        }
        let mut numbers = Vec::new();
        if !message.calls.is_empty() && self.is_answering {
            self.open.clear();
            self.is_answering = false;
        }
        for _ in &message.calls {
            self.count += 1;
            self.open.push_back(self.count);
            numbers.push(self.count);
        }
        for _ in 0..results {
            self.is_answering = true;
            numbers.push(self.open.pop_front().unwrap_or_else(|| {
                self.count += 1; // A call that the history does not show.
                self.count
            }));
        }
        numbers
    }
}

impl MadeMessages {
    /// A message with its ids, the same one where it was made before.
    fn made(&mut self, place: usize, message: &Arc<Message>, numbers: Vec<usize>) -> Arc<Message> {
        if let Some(Some(known)) = self.by_place.get(place)
            && Arc::ptr_eq(&known.before, message)
            && known.numbers == numbers
        {
            return known.after.clone();
        }
        let after = Arc::new(with_ids(message, self.start, &numbers));
        if self.by_place.len() <= place {
            self.by_place.resize_with(place + 1, || None);
        }
        self.by_place[place] = Some(MadeMessage {
            before: message.clone(),
            numbers,
            after: after.clone(),
        });
        after
    }
}

fn with_ids(message: &Message, start: u32, numbers: &[usize]) -> Message {
    let mut made = message.clone();
    let mut ids = numbers
        .iter()
        .map(|number| Some(format!("{MADE}{start:08x}.{number}")));
    for call in &mut made.calls {
        call.call_id = ids.next().flatten();
    }
    for result in &mut made.results {
        result.call_id = ids.next().flatten();
    }
    if let Some(call_id) = ids.next() {
        // The message of a tool that says only what it returned.
        let text = made.text.replace(String::new());
        let (text, failed) = text
            .map(|text| result_of(&Value::Text(text.into())))
            .unwrap_or_default();
        made.results.push(ToolResult {
            call_id,
            text,
            failed,
        });
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::messages::messages_of;

    fn read(text: &str, role: &str) -> Messages {
        let messages = messages_of(&Value::Text(text.into()), role).into_iter();
        Some(messages.map(Arc::new).collect())
    }

    fn ids(messages: &Messages) -> Vec<(Option<String>, Option<String>)> {
        let messages = messages.iter().flatten();
        let ids = messages.flat_map(|message| {
            let calls = message
                .calls
                .iter()
                .map(|call| (call.call_id.clone(), None));
            let results = message.results.iter();
            calls.chain(results.map(|result| (result.call_id.clone(), result.text.clone())))
        });
        ids.collect()
    }

    fn places(messages: &Messages) -> Vec<String> {
        let ids = ids(messages).into_iter();
        ids.map(|(id, text)| {
            let id = id.unwrap_or_default();
            let place = id.rsplit_once('.').map_or("", |(_, place)| place);
            text.map_or(place.to_owned(), |text| format!("{place}={text}"))
        })
        .collect()
    }

    const GEMINI: &str = r#"[{"role": "user", "parts": [{"text": "Go."}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}, {"functionCall": {"name": "g", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"result": "a"}}}, {"functionResponse": {"name": "g", "response": {"result": "b"}}}]}]"#;
    const ASKS: &str =
        r#"[{"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}]"#;

    #[test]
    fn calls_without_ids_are_told_apart_by_their_places() {
        let (mut given, mut answer) = (read(GEMINI, "user"), read(ASKS, "assistant"));
        give_ids(&mut given, &mut answer, &mut MadeMessages::default());
        assert_eq!(places(&given), ["1", "2", "1=a", "2=b"]);
        assert_eq!(places(&answer), ["3"]);
        assert!(
            ids(&given)
                .iter()
                .all(|(id, _)| id.as_deref().is_some_and(is_made))
        );
    }

    #[test]
    fn messages_of_tools_are_results_also_of_calls_that_are_not_shown() {
        let text = r#"[{"role": "tool", "content": "A tool may be told of."}, {"role": "user", "content": "Go."},
            {"role": "assistant", "content": ""}, {"role": "tool", "content": "no"},
            {"role": "assistant", "content": ""}, {"role": "tool", "content": "no"}]"#;
        let (mut given, mut answer) = (read(text, "user"), read(ASKS, "assistant"));
        give_ids(&mut given, &mut answer, &mut MadeMessages::default());
        assert_eq!(places(&given), ["1=no", "2=no"]);
        assert_eq!(places(&answer), ["3"]);
    }

    #[test]
    fn a_call_that_got_no_result_is_over_when_a_person_or_another_call_comes() {
        let text = r#"[{"role": "user", "content": "Go."},
            {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "user", "content": "Wait."},
            {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "a"}]"#;
        let mut given = read(text, "user");
        give_ids(&mut given, &mut None, &mut MadeMessages::default());
        assert_eq!(places(&given), ["1", "2", "2=a"]);
    }

    #[test]
    fn ids_that_are_there_stay_and_messages_are_made_once() {
        let text = r#"[{"role": "user", "content": "Go."}, {"role": "tool", "tool_call_id": "c", "content": "no"}]"#;
        let (mut given, mut answer) = (read(text, "user"), read(ASKS, "assistant"));
        let mut known = MadeMessages::default();
        give_ids(&mut given, &mut answer, &mut known);
        assert_eq!(ids(&given)[0].0.as_deref(), Some("c"));
        assert_eq!(ids(&answer)[0].0, None);

        let mut given = read(GEMINI, "user");
        let mut again = given.clone();
        give_ids(&mut given, &mut None, &mut known);
        give_ids(&mut again, &mut None, &mut known);
        let pairs = given.iter().flatten().zip(again.iter().flatten());
        assert!(
            pairs
                .into_iter()
                .all(|(one, other)| Arc::ptr_eq(one, other))
        );
    }
}

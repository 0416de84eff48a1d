//! Ids of calls that a conversation uses again: the second call of an id gets a number, `id#2`.
//!
//! Some servers number the calls of each response alike. A request shows the conversation so far,
//! so each of its calls and results can be told from the others of the same id.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::message::{Message, ToolCall};

/// The messages of a request or of a response.
pub type Messages = Option<Vec<Arc<Message>>>;

/// Put numbers at ids that come again in what a model was given and in its answer.
pub fn number_calls(given: &mut Messages, answer: &mut Messages) {
    let every = || given.iter().flatten().chain(answer.iter().flatten());
    let calls = every().flat_map(|message| &message.calls);
    let results = every().flat_map(|message| &message.results);
    let repeats = comes_again(calls.filter_map(|call| call.call_id.as_deref()))
        || comes_again(results.filter_map(|result| result.call_id.as_deref()));
    if !repeats {
        return;
    }
    let mut numbers = Numbers::default();
    for message in given
        .iter_mut()
        .flatten()
        .chain(answer.iter_mut().flatten())
    {
        numbers.number(message);
    }
}

fn comes_again<'m>(ids: impl Iterator<Item = &'m str>) -> bool {
    let mut known = HashSet::new();
    ids.into_iter().any(|id| !known.insert(id))
}

/// The last call of an id.
#[derive(Debug, Default)]
struct Last {
    number: usize,
    call: Option<ToolCall>,
    is_over: bool,
    // When it was asked for: what follows a call ends it, even where a result does not name it.
    at: usize,
    // The numbers of calls without a result.
    open: VecDeque<usize>,
}

/// The calls of a conversation so far, by their ids.
#[derive(Debug, Default)]
struct Numbers {
    last: HashMap<String, Last>,
    at: usize,
}

impl Numbers {
    fn number(&mut self, message: &mut Arc<Message>) {
        for place in 0..message.calls.len() {
            if let Some(id) = self.id_of_call(&message.calls[place]) {
                Arc::make_mut(message).calls[place].call_id = Some(id);
            }
        }
        for place in 0..message.results.len() {
            let id = message.results[place].call_id.as_deref();
            let id = id.filter(|id| !id.is_empty()).unwrap_or_default();
            if let Some(id) = self.id_of_result(id) {
                Arc::make_mut(message).results[place].call_id = Some(id);
            }
        }
        if message.role != "assistant" {
            self.at += 1;
        }
    }

    /// The id of a call with its number; `None` where it stays as it is.
    fn id_of_call(&mut self, call: &ToolCall) -> Option<String> {
        let id = call.call_id.as_deref().filter(|id| !id.is_empty())?;
        let at = self.at;
        let last = self.last.entry(id.to_owned()).or_insert_with(Last::over);
        let is_over = last.is_over || last.at != at;
        if is_over || last.call.as_ref() != Some(call) {
            last.number += 1;
            if is_over {
                last.open.clear();
            }
            last.open.push_back(last.number);
        }
        last.call = Some(call.clone());
        (last.is_over, last.at) = (false, at);
        numbered(id, last.number)
    }

    /// The same of a result.
    fn id_of_result(&mut self, id: &str) -> Option<String> {
        if id.is_empty() {
            return None;
        }
        let last = self.last.entry(id.to_owned()).or_insert_with(Last::over);
        let number = last.open.pop_front().unwrap_or_else(|| {
            last.number += usize::from(last.call.is_none());
            last.number
        });
        numbered(id, number)
    }
}

impl Last {
    /// An id of which no call is known.
    fn over() -> Self {
        Self {
            is_over: true,
            ..Self::default()
        }
    }
}

/// An id with its number; `None` for the first.
fn numbered(id: &str, number: usize) -> Option<String> {
    (number != 1).then(|| format!("{id}#{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::message::ToolResult;

    fn asks(id: &str, name: &str) -> Arc<Message> {
        let call = ToolCall {
            call_id: Some(id.into()),
            name: name.into(),
            arguments: None,
        };
        Arc::new(Message {
            role: "assistant".into(),
            calls: vec![call],
            ..Message::default()
        })
    }

    fn answers(id: &str) -> Arc<Message> {
        let result = ToolResult {
            call_id: Some(id.into()),
            text: None,
            failed: None,
        };
        Arc::new(Message {
            role: "tool".into(),
            results: vec![result],
            ..Message::default()
        })
    }

    fn ids(messages: &Messages) -> Vec<String> {
        let every = messages.iter().flatten();
        let ids = every.flat_map(|message| {
            let calls = message.calls.iter().map(|call| call.call_id.clone());
            calls.chain(message.results.iter().map(|result| result.call_id.clone()))
        });
        ids.flatten().collect()
    }

    #[test]
    fn ids_that_come_again_get_numbers() {
        let mut given = Some(vec![
            asks("c", "f"),
            answers("c"),
            asks("c", "f"),
            answers("c"),
        ]);
        let mut answer = Some(vec![asks("c", "f"), asks("d", "f")]);
        number_calls(&mut given, &mut answer);
        assert_eq!(ids(&given), ["c", "c", "c#2", "c#2"]);
        assert_eq!(ids(&answer), ["c#3", "d"]);
    }

    #[test]
    fn parallel_calls_of_one_id_have_their_own_results() {
        let mut given = Some(vec![
            asks("c", "f"),
            asks("c", "g"),
            answers("c"),
            answers("c"),
        ]);
        number_calls(&mut given, &mut None);
        assert_eq!(ids(&given), ["c", "c#2", "c", "c#2"]);
    }

    #[test]
    fn other_ids_stay() {
        let mut given = Some(vec![asks("c", "f"), answers("c")]);
        number_calls(&mut given, &mut None);
        assert_eq!(ids(&given), ["c", "c"]);
    }
}

//! Messages that come again in a conversation.

use std::sync::Arc;

use crate::fields::message::Message;
use crate::same::gist::Gist;
use crate::same::rounds::round_words;
use crate::same::waits::says_waits;

// Earlier messages with which one is compared in other words.
const ASKED_KEPT: usize = 16;

/// The words of the last message if it follows an answer, and came before; else `None`.
///
/// A message also came before if it asks in other words what had the same answer twice.
#[must_use]
pub fn comes_again(given: &[Arc<Message>]) -> Option<String> {
    let [earlier @ .., before, last] = given else {
        return None;
    };
    if earlier.is_empty() {
        return None;
    }
    let answer = answered(before)?;
    let asked = from_user(last)?;
    let words = round_words(asked);
    let came = |text: &str| round_words(text) == words;
    if words.is_some() && earlier.iter().filter_map(|one| from_user(one)).any(came) {
        return words;
    }
    asks_in_vain(earlier, answer, asked)
}

/// The first message that came again in other words, if the last answer was given before.
fn asks_in_vain(earlier: &[Arc<Message>], answer: &str, asked: &str) -> Option<String> {
    if says_waits(answer) {
        return None;
    }
    let answer = Gist::of(answer).filter(|gist| gist.says_enough())?;
    let earlier = &earlier[earlier.len().saturating_sub(ASKED_KEPT)..];
    let mut answers = earlier.iter().filter_map(|one| answered(one));
    if !answers.any(|text| Gist::of(text).is_some_and(|one| one.is_like(&answer))) {
        return None;
    }
    let texts = earlier.iter().filter_map(|one| from_user(one));
    let mut messages: Vec<_> = texts
        .filter_map(|text| Some((text, Gist::of(text)?)))
        .collect();
    messages.push((asked, Gist::of(asked)?));
    let came = |at: &usize| {
        let (_, one) = &messages[*at];
        let mut later = messages[at + 1..].iter();
        later.any(|(_, two)| one == two || one.is_part(two))
    };
    let first = (0..messages.len()).find(came)?;
    Some(messages[first].0.to_lowercase())
}

/// The text of an answer without calls.
fn answered(message: &Message) -> Option<&str> {
    if message.role != "assistant" || !message.calls.is_empty() {
        return None;
    }
    message.text.as_deref().filter(|text| !text.is_empty())
}

fn from_user(message: &Message) -> Option<&str> {
    let text = message.text.as_deref().filter(|text| !text.is_empty())?;
    (message.role == "user" && message.results.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(role: &str, text: &str) -> Arc<Message> {
        let (role, text) = (role.to_owned(), Some(text.to_owned()));
        Arc::new(Message {
            role,
            text,
            ..Message::default()
        })
    }

    #[test]
    fn a_question_in_other_words_comes_again_if_its_answer_does() {
        let wait = said("assistant", "Please see the tracking page for your order.");
        let other = said("assistant", "The parcel left Hamburg this morning.");
        let first = said("user", "Where is my parcel?");
        let second = said("user", "Can you tell me where my parcel is?");
        let third = said("user", "I want to know where that parcel is!");
        let again = |answer: &Arc<Message>| {
            comes_again(&[
                first.clone(),
                wait.clone(),
                second.clone(),
                answer.clone(),
                third.clone(),
            ])
        };
        assert_eq!(again(&wait).as_deref(), Some("where is my parcel?"));
        assert!(again(&other).is_none());
        let lot = |name: &str| said("user", &format!("Is the lot {name} free?"));
        let taken = said("assistant", "That lot is taken by another guest.");
        let lots = [lot("A"), taken.clone(), lot("B"), taken, lot("C")];
        assert!(comes_again(&lots).is_none());
    }

    #[test]
    fn a_message_comes_again_with_another_number() {
        let goal = |round: u8| {
            said(
                "user",
                &format!("Round {round}: go on until all tests pass."),
            )
        };
        let done = said("assistant", "I will.");
        let given = [goal(1), done.clone(), goal(2)];
        assert!(comes_again(&given).is_some());
        assert!(comes_again(&[goal(1), goal(2)]).is_none());
        assert!(
            comes_again(&[
                said("user", "Mend page 3 of the whole book."),
                done,
                goal(2)
            ])
            .is_none()
        );
    }
}

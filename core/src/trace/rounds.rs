//! Messages that come again in a conversation.

use std::sync::Arc;

use crate::fields::message::Message;
use crate::same::rounds::round_words;

/// The words of the last message if it follows an answer, and came before; else `None`.
#[must_use]
pub fn comes_again(given: &[Arc<Message>]) -> Option<String> {
    let [earlier @ .., before, last] = given else {
        return None;
    };
    if earlier.is_empty() || before.role != "assistant" || !before.calls.is_empty() {
        return None;
    }
    before.text.as_ref().filter(|text| !text.is_empty())?;
    let words = round_words(from_user(last)?)?;
    let came = |text: &str| round_words(text).as_deref() == Some(&*words);
    earlier
        .iter()
        .filter_map(|message| from_user(message))
        .any(came)
        .then_some(words)
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

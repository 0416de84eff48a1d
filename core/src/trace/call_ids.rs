//! Numbers at the ids of calls that a conversation uses again: the second call is `id#2`.

const NUMBER: char = '#';

/// The id that a call has in its trace, without its number.
#[must_use]
pub fn written_id(call_id: &str) -> &str {
    match call_id.rsplit_once(NUMBER) {
        Some((before, number)) if !before.is_empty() && is_number(number) => before,
        _ => call_id,
    }
}

/// The id of the call before, with its number; `None` if it is the first of its id.
#[must_use]
pub fn id_before(call_id: &str) -> Option<String> {
    let written = written_id(call_id);
    let number: u64 = call_id[written.len()..]
        .strip_prefix(NUMBER)?
        .parse()
        .ok()?;
    match number {
        0 | 1 => None,
        2 => Some(written.to_owned()),
        more => Some(format!("{written}{NUMBER}{}", more - 1)),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_tells_which_call_of_an_id_it_is() {
        for (given, written, before) in [
            ("a", "a", None),
            ("a#1", "a", None),
            ("a#2", "a", Some("a")),
            ("a#10", "a", Some("a#9")),
            ("a#b", "a#b", None),
            ("#2", "#2", None),
            ("", "", None),
            ("a#", "a#", None),
        ] {
            assert_eq!(written_id(given), written, "{given}");
            assert_eq!(id_before(given).as_deref(), before, "{given}");
        }
    }
}

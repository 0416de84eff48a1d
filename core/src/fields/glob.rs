//! Patterns of names as in shells: `*`, `?`, `[a-z]`, `[!a]`.

use crate::patterns::next_place;

/// A compiled pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Glob {
    /// Exactly this text.
    Exact(String),
    /// A text that begins so.
    Begins(String),
    /// A text that ends so.
    Ends(String),
    /// Anything else.
    Steps(Vec<Step>),
}

/// A step of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Any text.
    Any,
    /// Any character.
    One,
    /// This character.
    Char(char),
    /// A character of these ranges, or of none of them.
    Class(Vec<(char, char)>, bool),
}

impl Glob {
    /// Compile a pattern.
    #[must_use]
    pub fn new(pattern: &str) -> Self {
        let is_special = |text: &str| text.contains(['*', '?', '[']);
        if !is_special(pattern) {
            return Self::Exact(pattern.to_owned());
        }
        match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
            (Some(end), _) if !is_special(end) => Self::Ends(end.to_owned()),
            (_, Some(begin)) if !is_special(begin) => Self::Begins(begin.to_owned()),
            _ => Self::Steps(steps_of(pattern)),
        }
    }

    /// The only text of this pattern.
    #[must_use]
    pub fn whole(&self) -> Option<&str> {
        match self {
            Self::Exact(text) => Some(text),
            _ => None,
        }
    }

    /// Whether a text is of this pattern.
    #[must_use]
    pub fn fits(&self, text: &str) -> bool {
        match self {
            Self::Exact(wanted) => text == wanted,
            Self::Begins(begin) => text.starts_with(begin),
            Self::Ends(end) => text.ends_with(end),
            Self::Steps(steps) => walk(steps, text),
        }
    }
}

/// Whether a text is of one of these patterns, or there are none.
#[must_use]
pub fn fits_any(patterns: &[Glob], text: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| pattern.fits(text))
}

fn steps_of(pattern: &str) -> Vec<Step> {
    let chars: Vec<char> = pattern.chars().collect();
    let (mut steps, mut at) = (Vec::new(), 0);
    while at < chars.len() {
        let (step, next) = match chars[at] {
            '*' => (Step::Any, at + 1),
            '?' => (Step::One, at + 1),
            '[' => class_at(&chars, at).unwrap_or((Step::Char('['), at + 1)),
            c => (Step::Char(c), at + 1),
        };
        if step != Step::Any || steps.last() != Some(&Step::Any) {
            steps.push(step);
        }
        at = next;
    }
    steps
}

/// The class that begins at a bracket, and where it ends; `None` if the bracket stays open.
fn class_at(chars: &[char], at: usize) -> Option<(Step, usize)> {
    let is_negative = chars.get(at + 1) == Some(&'!');
    let from = at + 1 + usize::from(is_negative);
    // A bracket at the beginning is one of the characters.
    let end = (from + 1..chars.len()).find(|place| chars[*place] == ']')?;
    let (mut ranges, mut place) = (Vec::new(), from);
    while place < end {
        let last = if place + 2 < end && chars[place + 1] == '-' {
            place + 2
        } else {
            place
        };
        ranges.push((chars[place], chars[last]));
        place = last + 1;
    }
    Some((Step::Class(ranges, is_negative), end + 1))
}

fn walk(steps: &[Step], text: &str) -> bool {
    let (mut step, mut at) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while let Some(found) = text[at..].chars().next() {
        let fits = match steps.get(step) {
            Some(Step::Any) => {
                star = Some((step, at));
                step += 1;
                continue;
            }
            Some(Step::One) => true,
            Some(Step::Char(c)) => *c == found,
            Some(Step::Class(ranges, is_negative)) => {
                let is_in = ranges.iter().any(|(a, b)| (*a..=*b).contains(&found));
                is_in != *is_negative
            }
            None => false,
        };
        if fits {
            (step, at) = (step + 1, at + found.len_utf8());
        } else if let Some((before, begun)) = star {
            (step, at) = (before + 1, next_place(text, begun));
            star = Some((before, at));
        } else {
            return false;
        }
    }
    steps[step..].iter().all(|step| *step == Step::Any)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_in_shells() {
        for (pattern, text, fits) in [
            ("chat", "chat", true),
            ("chat", "chats", false),
            ("running*tools", "running 3 tools", true),
            ("*.mcp", "a.mcp", true),
            ("codex*", "codex", true),
            ("*openlit*", "x.openlit.y", true),
            ("*", "", true),
            ("?*", "", false),
            ("?*", "é", true),
            ("a[0-9x]*b", "a7..b", true),
            ("a[!0-9]b", "a7b", false),
            ("a[b", "a[b", true),
            ("a*b*c", "aXbXbXc", true),
            ("a*b*c", "aXbXbX", false),
        ] {
            assert_eq!(Glob::new(pattern).fits(text), fits, "{pattern} {text}");
        }
    }
}

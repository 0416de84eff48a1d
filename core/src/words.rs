//! The words without which rows of the tables have no match, looked for in a text all at once.
//!
//! A text is read by some sixty patterns, most of which it has no word of. Their automata together
//! do not fit the caches of a core, and each takes some 2 ns a byte, or 20 where it counts far. So
//! the words of the rows that are tried most are looked for together, once for a text, and a
//! pattern reads the text only where it has a word of it.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasher;
use std::sync::LazyLock;

use foldhash::fast::RandomState;
use regex_syntax::ast::parse::Parser;
use regex_syntax::ast::{
    Ast, ClassBracketed, ClassSet, ClassSetItem, RepetitionKind, RepetitionRange,
};

use crate::tables::{CHECKS, FAILURES, MARKS, ROUNDS, Row, Table, WAITING, any_of};

// The arrays whose rows are bound to words: those that are tried for each call or response.
#[rustfmt::skip]
static BOUND: [(&LazyLock<Table>, &[&str]); 5] = [
    (&CHECKS, &["fault"]),
    (&FAILURES, &[
        "error_kinds", "exists", "exit_one", "exit_timeout", "failed_test", "failure_exit",
        "failure_head", "guesses", "model_server", "of_call", "of_edit", "of_file", "of_request",
        "of_thing", "refusals", "says_no", "timeouts", "too_much", "unchanged",
    ]),
    (&MARKS, &[
        "apologies", "asking_statement", "courtesy", "declines", "drained", "empty", "good_news",
        "lasting_faults", "log_file", "move_arguments", "narrows", "no_effects", "not_taken",
        "not_there", "nothing", "outputless", "reports", "settles", "sleeps", "state_commands",
        "tries_otherwise", "turned_down", "undoing_command", "unseen", "ways",
    ]),
    (&ROUNDS, &["rejects"]),
    (&WAITING, &[
        "arguments", "begun", "ended", "last_lines", "later", "locked", "open", "says_waits",
        "tells", "unfinished", "well",
    ]),
];
const ROWS_MAX: usize = 256;
// The first signs of a word, which are looked for before the rest. A shorter word stands in most
// texts.
const GRAM: usize = 4;
// As many bits as a first-level cache has at hand.
const GRAM_BITS: usize = 1 << 15;
// Signs beyond ASCII that are letters of ASCII in another case.
const ALIKE: [char; 2] = ['\u{17f}', '\u{212a}'];
// The last texts whose words are kept: the arguments, the result and the ends of one call.
const TEXTS_KEPT: usize = 4;

/// A set of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rows([u64; ROWS_MAX / 64]);

impl Rows {
    fn with(mut self, place: usize) -> Self {
        self.0[place / 64] |= 1 << (place % 64);
        self
    }

    /// The rows of both sets.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let mut all = self;
        all.0
            .iter_mut()
            .zip(other.0)
            .for_each(|(each, more)| *each |= more);
        all
    }

    /// Whether a row is in both sets.
    #[must_use]
    pub fn meets(self, other: Self) -> bool {
        self.0
            .iter()
            .zip(other.0)
            .any(|(each, more)| each & more != 0)
    }
}

/// A row in two.
#[derive(Clone, Debug)]
pub struct Split {
    /// Its place, and its forms that need a word.
    pub bound: (Rows, String),
    /// Its forms that any text may have.
    pub free: Option<String>,
}

/// The words of all rows, by their first signs.
struct Words {
    // Rows with forms beyond ASCII, whose words are those of the others alone.
    beyond: Rows,
    // Of each row with words, by its pattern.
    rows: HashMap<String, Split>,
    // A bit for each first four signs.
    grams: Box<[u64; GRAM_BITS / 64]>,
    words: HashMap<u32, Vec<(Vec<u8>, Rows)>, RandomState>,
}

fn bound_rows() -> impl Iterator<Item = &'static Row> {
    let arrays = BOUND
        .iter()
        .flat_map(|(table, names)| names.iter().map(|name| &table[*name]));
    arrays.flatten()
}

static WORDS: LazyLock<Words> = LazyLock::new(Words::new);

impl Words {
    fn new() -> Self {
        let (mut rows, mut beyond) = (HashMap::new(), Rows::default());
        let mut words: HashMap<Vec<u8>, Rows> = HashMap::new();
        for row in bound_rows() {
            let Ok(parsed) = Parser::new().parse(&row.pattern) else {
                continue; // It looks around its matches.
            };
            let (mut found, mut bound, mut free) = (Needed::new(), Vec::new(), Vec::new());
            for (form, text) in forms_of(&parsed, &row.pattern) {
                match words_of(form) {
                    Some(words) => {
                        found.extend(words);
                        bound.push(text);
                    }
                    None => free.push(text),
                }
            }
            if bound.is_empty() {
                continue;
            }
            let place = Rows::default().with(rows.len());
            let bound = any_of(&bound);
            if !bound.is_ascii() {
                beyond = beyond.or(place);
            }
            let split = Split {
                bound: (place, bound),
                free: (!free.is_empty()).then(|| any_of(&free)),
            };
            rows.insert(row.pattern.clone(), split);
            for word in found {
                let rows = words.entry(word.bytes().map(lower).collect()).or_default();
                *rows = rows.or(place);
            }
        }
        let mut all = Self {
            beyond,
            rows,
            grams: Box::new([0; GRAM_BITS / 64]),
            words: HashMap::default(),
        };
        for (word, rows) in words {
            let gram = word[..GRAM]
                .iter()
                .fold(0, |gram, sign| gram << 8 | u32::from(*sign));
            let place = place(gram);
            all.grams[place / 64] |= 1 << (place % 64);
            all.words.entry(gram).or_default().push((word, rows));
        }
        all
    }

    /// The rows that a text may have.
    fn may_have(&self, text: &str) -> Rows {
        let found = self.found(text.as_bytes());
        if text.is_ascii() {
            found
        } else if text.contains(ALIKE) {
            Rows([u64::MAX; ROWS_MAX / 64])
        } else {
            found.or(self.beyond)
        }
    }

    /// The rows of which a text has a word.
    fn found(&self, text: &[u8]) -> Rows {
        let mut rows = Rows::default();
        let mut last = 0_u32;
        for (at, sign) in text.iter().enumerate() {
            last = last << 8 | u32::from(lower(*sign));
            let place = place(last);
            if self.grams[place / 64] >> (place % 64) & 1 != 0 {
                rows = rows.or(self.begun(last, &text[(at + 1).saturating_sub(GRAM)..]));
            }
        }
        rows
    }

    /// The rows of words with which a text begins, of those with such first signs.
    fn begun(&self, gram: u32, text: &[u8]) -> Rows {
        let begins = |word: &[u8]| {
            text.len() >= word.len()
                && word
                    .iter()
                    .zip(text)
                    .all(|(sign, other)| *sign == lower(*other))
        };
        let words = self.words.get(&gram).into_iter().flatten();
        let begun = words.filter(|(word, _)| begins(word));
        begun.fold(Rows::default(), |rows, (_, more)| rows.or(*more))
    }
}

/// A sign in lower case; some others are alike, too.
fn lower(sign: u8) -> u8 {
    sign | 0x20
}

fn place(gram: u32) -> usize {
    (gram.wrapping_mul(0x9E37_79B1) >> 17) as usize
}

/// A row of which some forms need a word.
#[must_use]
pub fn split(pattern: &str) -> Option<&'static Split> {
    WORDS.rows.get(pattern)
}

struct Kept {
    // Nobody can write a text with the hash of another one.
    hasher: RandomState,
    texts: [(u64, usize, Rows); TEXTS_KEPT],
    next: usize,
}

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::new(Kept {
        hasher: RandomState::default(),
        texts: [(0, 0, Rows::default()); TEXTS_KEPT],
        next: 0,
    });
}

/// The rows that a text may have: those of which it has a word.
#[must_use]
pub fn found(text: &str) -> Rows {
    KEPT.with_borrow_mut(|kept| {
        let hash = kept.hasher.hash_one(text.as_bytes());
        let mut texts = kept.texts.iter();
        if let Some((.., rows)) = texts.find(|each| (each.0, each.1) == (hash, text.len())) {
            return *rows;
        }
        let rows = WORDS.may_have(text);
        kept.texts[kept.next] = (hash, text.len(), rows);
        kept.next = (kept.next + 1) % TEXTS_KEPT;
        rows
    })
}

type Needed = BTreeSet<String>;

/// The forms of a pattern, which stand between its bars, each with its text and the flags of all.
fn forms_of<'a>(parsed: &'a Ast, pattern: &str) -> Vec<(&'a Ast, String)> {
    let whole = || vec![(parsed, pattern.to_owned())];
    let Ast::Alternation(all) = parsed else {
        return whole();
    };
    let text = |ast: &Ast| &pattern[ast.span().start.offset..ast.span().end.offset];
    let flags = flags_of(&all.asts[0]).map(text).unwrap_or_default();
    if all.asts[1..].iter().any(|each| flags_of(each).is_some()) {
        return whole();
    }
    let others = all.asts[1..]
        .iter()
        .map(|each| (each, format!("{flags}{}", text(each))));
    std::iter::once((&all.asts[0], text(&all.asts[0]).to_owned()))
        .chain(others)
        .collect()
}

/// The flags that a form sets for itself and for those after it.
fn flags_of(form: &Ast) -> Option<&Ast> {
    let is_flags = |part: &&Ast| matches!(part, Ast::Flags(_));
    match form {
        Ast::Flags(_) => Some(form),
        Ast::Concat(all) => all.asts.iter().find(is_flags),
        _ => None,
    }
}

/// A pattern for texts of ASCII, which have no sign beyond it.
#[must_use]
pub fn in_ascii(pattern: &str) -> String {
    let parts: Vec<&str> = pattern.split(|sign: char| !sign.is_ascii()).collect();
    format!("(?-u){}", parts.join(r"\xFF"))
}

/// The words of which each match in a text of ASCII has one; none where it may have others.
fn words_of(form: &Ast) -> Option<Needed> {
    needed(form).filter(|words| words.is_empty() || shortest(words) >= GRAM)
}

/// The same of a part, with words of any length; no word where no text of ASCII has it.
fn needed(part: &Ast) -> Option<Needed> {
    match part {
        Ast::Alternation(all) => all.asts.iter().try_fold(Needed::new(), |mut words, each| {
            words.extend(needed(each)?);
            Some(words)
        }),
        Ast::Repetition(each) if times_min(&each.op.kind) > 0 => needed(&each.ast),
        Ast::Group(group) => needed(&group.ast),
        Ast::Concat(all) => rarest(&all.asts),
        Ast::Literal(literal) if !literal.c.is_ascii() => Some(Needed::new()),
        Ast::Literal(_) => Some(Needed::from([piece(part)?])),
        _ => None,
    }
}

fn times_min(kind: &RepetitionKind) -> u32 {
    match kind {
        RepetitionKind::ZeroOrOne | RepetitionKind::ZeroOrMore => 0,
        RepetitionKind::OneOrMore => 1,
        RepetitionKind::Range(
            RepetitionRange::Exactly(min)
            | RepetitionRange::AtLeast(min)
            | RepetitionRange::Bounded(min, _),
        ) => *min,
    }
}

/// The words of that part of a sequence whose shortest word is the longest.
fn rarest(all: &[Ast]) -> Option<Needed> {
    let mut found: Vec<Needed> = Vec::new();
    let mut run = String::new();
    for each in all {
        if let Some(piece) = piece(each) {
            run.push_str(&piece);
            continue;
        }
        found.push(Needed::from([std::mem::take(&mut run)]));
        match needed(each) {
            Some(words) if words.is_empty() => return Some(words),
            words => found.extend(words),
        }
    }
    found.push(Needed::from([run]));
    found.into_iter().max_by_key(shortest)
}

fn shortest(words: &Needed) -> usize {
    words.iter().map(String::len).min().unwrap_or(0)
}

/// What stands for sure where this does, in any letter case.
fn piece(part: &Ast) -> Option<String> {
    match part {
        Ast::Literal(literal) => literal.c.is_ascii().then(|| literal.c.into()),
        Ast::ClassBracketed(class) => letter(class).map(String::from),
        Ast::Empty(_) | Ast::Flags(_) | Ast::Assertion(_) => Some(String::new()),
        Ast::Group(group) => piece(&group.ast),
        Ast::Concat(all) => all.asts.iter().map(piece).collect(),
        _ => None,
    }
}

/// The letter that a class has in each of its cases, and nothing else.
fn letter(class: &ClassBracketed) -> Option<char> {
    let ClassSet::Item(ClassSetItem::Union(all)) = &class.kind else {
        return None;
    };
    let mut signs = all.items.iter().map(|item| match item {
        ClassSetItem::Literal(literal) => Some(literal.c.to_ascii_lowercase()),
        _ => None,
    });
    let first = signs.next()??;
    let is_one = !class.negated && signs.all(|sign| sign == Some(first));
    (is_one && first.is_ascii()).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patterns::pattern;

    fn parsed(pattern: &str) -> Ast {
        Parser::new().parse(pattern).expect("it is a pattern")
    }

    #[test]
    fn each_match_has_one_of_the_words() {
        for (pattern, expected) in [
            (
                r"(?i)\bstill [^\n]{0,60}(?:Running|queued)",
                "queued running",
            ),
            (r"[a-z]{0,60}(?:running|on) (?:hold|here)", "here hold"),
            (r"(?i)^(?:it ){0,9}wait(?:ing)?\b", "wait"),
            (r"x{9}(?:abcd)+", "abcd"),
            ("läuft noch|stays", "stays"),
            ("(?:läuft )?noch", "noch"),
            ("läuft", ""),
            // A match may have none.
            (r"[^\n]{0,60}(?:running)?", ""),
            (r"[^\n]{0,60}(?:running|at)", ""),
            (r"[^\n]{0,60}[ab]ches", "ches"),
            (r"[^\n]{0,60}[Rr]eaches (?:on|off)", "reaches "),
        ] {
            let words = words_of(&parsed(pattern)).unwrap_or_default();
            let words: BTreeSet<String> = words.iter().map(|word| word.to_lowercase()).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            assert_eq!(words.join(" "), expected, "{pattern}");
        }
    }

    #[test]
    fn a_row_is_read_by_its_forms() {
        for (pattern, expected) in [
            (r"(?i)\bqueued\b|^ok$", &[r"(?i)\bqueued\b", "(?i)^ok$"][..]),
            ("a(?:b|c)", &["a(?:b|c)"]),
            ("a|(?i)b|c", &["a|(?i)b|c"]),
            ("^|a", &["^", "a"]),
        ] {
            let parsed = parsed(pattern);
            let forms = forms_of(&parsed, pattern);
            let texts: Vec<&str> = forms.iter().map(|(_, text)| &**text).collect();
            assert_eq!(texts, expected, "{pattern}");
        }
        let well = split(&WAITING["well"][0].pattern).expect("it has words");
        assert!(well.free.is_some());
    }

    #[test]
    fn a_text_with_a_match_has_a_word_of_its_row() {
        for row in bound_rows() {
            let Some(split) = split(&row.pattern) else {
                continue;
            };
            let whole = pattern(&row.pattern);
            let free = split.free.as_deref().map(pattern);
            for example in row.examples.iter().filter(|each| each.text.is_ascii()) {
                let texts = [&example.text, &example.text.to_uppercase()];
                for text in texts.into_iter().filter(|text| whole.is_match(text)) {
                    let is_free = free.as_ref().is_some_and(|free| free.is_match(text));
                    assert!(is_free || found(text).meets(split.bound.0), "{text}");
                }
            }
        }
        assert_eq!(found(""), Rows::default());
        let split = split(&MARKS["sleeps"][0].pattern).expect("it has words");
        for (text, expected) in [
            ("“sleep 3”", true),
            ("“\u{17f}leep 3”", true),
            ("“rest”", false),
        ] {
            assert_eq!(found(text).meets(split.bound.0), expected, "{text}");
        }
    }
}

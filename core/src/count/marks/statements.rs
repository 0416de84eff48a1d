//! Statements of SQL that ask the same, whatever their order and their aliases.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use crate::count::codes::code;
use crate::patterns::pattern;

static ASKS_SQL: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?i)^\W*(?:select|with)\b"));
static SQL_WORDS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"'[^']*'|[A-Za-z_][\w$]*(?:\.[A-Za-z_][\w$]*)*|[0-9][\w.:-]*|[<>!]=?")
});

// Words of a statement that do not say what is asked for, nor in which order or how much is shown.
const SQL_FILLER: [&str; 18] = [
    "select", "distinct", "from", "where", "and", "as", "order", "by", "asc", "desc", "limit",
    "offset", "inner", "join", "on", "all", "date", "with",
];
const SQL_PAGES: [&str; 2] = ["limit", "offset"];

/// The codes of the words of a statement that asks, whatever their order and their aliases.
#[must_use]
pub fn statement_of(text: &str) -> BTreeSet<i64> {
    if !ASKS_SQL.is_match(text) {
        return BTreeSet::new();
    }
    let mut is_page = false;
    let words = SQL_WORDS.find_iter(text).filter_map(|word| {
        let word = word.as_str().to_lowercase();
        let was_page = std::mem::replace(&mut is_page, SQL_PAGES.contains(&&*word));
        let is_name = word.starts_with(|sign: char| sign.is_alphabetic() || sign == '_');
        let name = match word.rsplit_once('.').filter(|_| is_name) {
            Some((_, name)) => name,
            None => word.trim_matches('\''),
        };
        (!was_page && !SQL_FILLER.contains(&name)).then(|| code(name))
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_has_its_words_without_aliases_and_pages() {
        let one = statement_of("SELECT id FROM users WHERE mail = 'a@b.example' LIMIT 10");
        let two = "select u.id from users u where u.mail='a@b.example' order by id limit 3";
        assert!(one.is_subset(&statement_of(two)));
        let other = "select u.id from users u where u.mail='c@d.example'";
        assert!(!one.is_subset(&statement_of(other)));
        assert!(statement_of("delete from users").is_empty());
    }
}

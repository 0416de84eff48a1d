//! The table of dialects: what a span is, and which attributes its fields stand in.

use foldhash::{HashMap, HashSet};

use super::flat::Prefix;
use super::glob::Glob;
use super::names::{FIELDS, Field, TIES};
use super::table_rows::{Dialect, Document, Given, Kind, Listed, Nobody, Row, Whole};
use crate::wire::value::Value;
use regex::Regex;

/// The table that is shipped.
pub const SHIPPED: &str = include_str!("../../../src/looptrace/analyzer/fields/dialects.toml");

/// Where a field stands in an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// It is the attribute.
    All,
    /// The attribute is the prefix of flat keys of messages.
    Flat,
    /// The attribute is the prefix of flat keys of one object.
    Named,
    /// A part of its JSON.
    Path(String),
}

/// A source of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The number of the attribute, of all that the table knows.
    pub slot: usize,
    /// Where in it.
    pub part: Part,
}

/// What attributes are read for: fields, and rows that say what a span is.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    fields: u64, // a bit each
    rows: Vec<u64>,
}

const _: () = assert!(FIELDS.len() <= u64::BITS as usize);

impl Asked {
    /// Add what another attribute is read for.
    pub fn add(&mut self, other: &Self) {
        self.fields |= other.fields;
        for (bits, more) in self.rows.iter_mut().zip(&other.rows) {
            *bits |= more;
        }
    }

    /// Add rows by their numbers.
    pub fn add_rows<'t>(&mut self, rows: impl IntoIterator<Item = &'t usize>) {
        for row in rows {
            self.rows[row / 64] |= 1 << (row % 64);
        }
    }

    /// Whether a field is among them.
    #[must_use]
    pub fn has(&self, field: Field) -> bool {
        self.fields >> field as u64 & 1 == 1
    }

    /// The numbers of the rows, in their order.
    pub fn rows(&self) -> impl Iterator<Item = usize> {
        let words = self.rows.iter().enumerate();
        words.flat_map(|(word, bits)| {
            let without_first = |bits: &u64| Some(bits & bits.wrapping_sub(1));
            let rests = std::iter::successors(Some(*bits), without_first);
            let set = rests.take_while(|bits| *bits != 0);
            set.map(move |bits| word * 64 + bits.trailing_zeros() as usize)
        })
    }
}

/// Dialects in the order in which they are asked, with what follows from them.
#[derive(Debug)]
pub struct Table {
    /// The names of the dialects.
    pub dialects: Vec<String>,
    /// By dialect, whether an agent has the name of its span.
    pub named_by_span: Vec<bool>,
    /// By dialect, whether programs write such spans also within calls.
    pub common: Vec<bool>,
    /// What stands for an agent's name and is none.
    pub nobody: Vec<Nobody>,
    /// What stands for the id of a session and is none.
    pub no_session: Vec<Glob>,
    /// What spans are.
    pub rows: Vec<Row<Kind>>,
    /// Of which spans the producer counts parts beside the whole.
    pub beside: Vec<Row<Whole>>,
    /// Of which responses the usage is that of their run so far.
    pub so_far: Vec<Row<Whole>>,
    /// The prefixes of flat keys.
    pub prefixes: Vec<Prefix>,
    /// The names of span events that fields are read from.
    pub events: HashSet<String>,
    /// By attribute, whether a field is read from it.
    pub is_field: Vec<bool>,
    /// By attribute, what it is read for.
    pub asked: Vec<Asked>,
    /// The rows that ask for no attribute, and for no name or scope by its whole text.
    pub slotless: Asked,
    // By attribute, and last for scopes and for names: the rows that ask for a text.
    by_text: Vec<HashMap<String, Vec<usize>>>,
    // By attribute, whether it begins with a prefix of flat keys.
    is_flat: Vec<bool>,
    slots: HashMap<String, usize>,
    names: Vec<String>,
    // By dialect, and last for spans of none: the keys of each field.
    keys: Vec<Vec<Vec<Key>>>,
    extras: Regex,
    reasons: HashMap<String, String>,
}

impl Table {
    /// Compile a table, with a dialect of a user's own keys before the others.
    ///
    /// `own` is a dialect in JSON: its name, `kinds` and `fields`, as the table has them.
    ///
    /// # Errors
    ///
    /// Why a table is none.
    pub fn new(text: &str, own: Option<&str>) -> Result<Self, String> {
        let document: Document = toml::from_str(text).map_err(|error| error.to_string())?;
        let own = own.map(serde_json::from_str::<Dialect>).transpose();
        let own = own.map_err(|error| error.to_string())?;
        let dialects: Vec<Dialect> = own.into_iter().chain(document.dialects).collect();
        let known = |name: &String| FIELDS.iter().any(|(field, _)| field == name);
        for dialect in &dialects {
            if let Some(name) = dialect.fields.keys().find(|name| !known(name)) {
                return Err(format!("dialect {}: no such field: {name}", dialect.name));
            }
        }
        let mut table = Self {
            dialects: dialects
                .iter()
                .map(|dialect| dialect.name.clone())
                .collect(),
            named_by_span: dialects
                .iter()
                .map(|dialect| dialect.named_by_span)
                .collect(),
            common: dialects.iter().map(|dialect| dialect.common).collect(),
            nobody: dialects.iter().flat_map(|d| d.nobody.clone()).collect(),
            no_session: dialects
                .iter()
                .flat_map(|d| &d.no_session)
                .map(|text| Glob::new(text))
                .collect(),
            rows: Vec::new(),
            beside: Vec::new(),
            so_far: Vec::new(),
            prefixes: Vec::new(),
            events: HashSet::default(),
            is_field: Vec::new(),
            asked: Vec::new(),
            slotless: Asked::default(),
            by_text: Vec::new(),
            is_flat: Vec::new(),
            slots: HashMap::default(),
            names: Vec::new(),
            keys: Vec::new(),
            extras: name_extras(&dialects)?,
            reasons: HashMap::default(),
        };
        for (reason, words) in document.finish_reasons {
            let words = words.into_iter().map(|word| (word, reason.clone()));
            table.reasons.extend(words);
        }
        table.add_keys(&dialects);
        for (place, dialect) in dialects.iter().enumerate() {
            for given in &dialect.kinds {
                let row = table.row(given, given.kind, place);
                table.rows.push(row);
            }
            for given in &dialect.beside {
                let row = table.row(given, given.kind, place);
                let is_of_run = row.kind == Whole::Run;
                let rows = if is_of_run {
                    &mut table.so_far
                } else {
                    &mut table.beside
                };
                rows.push(row);
            }
        }
        table.note_asked();
        Ok(table)
    }

    fn note_asked(&mut self) {
        let none = Asked {
            fields: 0,
            rows: vec![0; self.rows.len().div_ceil(64)],
        };
        self.asked = vec![none.clone(); self.names.len()];
        self.slotless = none;
        self.by_text = vec![HashMap::default(); self.names.len() + 2];
        let [scope, name] = self.by_scope_and_name();
        for (place, row) in self.rows.iter().enumerate() {
            let (whose, texts) = match row.slot {
                Some(slot) => (slot, row.values.as_slice()),
                None if texts_of(&row.scope).is_some() => (scope, row.scope.as_slice()),
                None => (name, row.name.as_slice()),
            };
            if let Some(texts) = texts_of(texts).filter(|_| row.path.is_empty()) {
                for text in texts {
                    let rows = self.by_text[whose].entry(text.to_owned());
                    rows.or_default().push(place);
                }
                continue;
            }
            let slotless = &mut self.slotless;
            let asked = row.slot.map_or(slotless, |slot| &mut self.asked[slot]);
            asked.add_rows([&place]);
        }
        let begins = |name: &String| {
            let mut prefixes = self.prefixes.iter();
            prefixes.any(|prefix| name.starts_with(prefix.text.as_str()))
        };
        self.is_flat = self.names.iter().map(begins).collect();
        for keys in &self.keys {
            for (field, key) in keys
                .iter()
                .enumerate()
                .flat_map(|(n, keys)| keys.iter().map(move |key| (n, key)))
            {
                self.asked[key.slot].fields |= 1 << field;
            }
        }
    }

    /// The number of an attribute, if the table knows it.
    #[must_use]
    pub fn slot(&self, attribute: &str) -> Option<usize> {
        self.slots.get(attribute).copied()
    }

    /// Whether an attribute with this number, or with none, may be a flat key.
    #[must_use]
    pub fn may_be_flat(&self, slot: Option<usize>) -> bool {
        slot.is_none_or(|slot| self.is_flat[slot])
    }

    /// Whether one of these fields may be read from an attribute.
    #[must_use]
    pub fn is_read(&self, attribute: &str, fields: &[Field]) -> bool {
        let slot = self.slot(attribute);
        let flat = self
            .prefixes
            .iter()
            .filter(|prefix| self.may_be_flat(slot) && attribute.starts_with(prefix.text.as_str()));
        let mut slots = flat.map(|prefix| prefix.slot).chain(slot);
        slots.any(|slot| fields.iter().any(|field| self.asked[slot].has(*field)))
    }

    /// The rows that ask an attribute for its whole text; all of them where it is no text.
    pub fn rows_of(&self, slot: usize, value: &Value<'_>) -> impl Iterator<Item = &usize> {
        let rows = &self.by_text[slot];
        let (one, all) = match value {
            Value::Text(text) => (rows.get(&**text), None),
            _ => (None, Some(rows.values().flatten())),
        };
        one.into_iter().flatten().chain(all.into_iter().flatten())
    }

    /// The rows that ask for no attribute, but for the whole text of a scope or a name.
    pub fn rows_named(&self, name: &str, scope: &str) -> impl Iterator<Item = &usize> {
        let [by_scope, by_name] = self.by_scope_and_name().map(|at| &self.by_text[at]);
        let rows = [by_scope.get(scope), by_name.get(name)];
        rows.into_iter().flatten().flatten()
    }

    fn by_scope_and_name(&self) -> [usize; 2] {
        [self.names.len(), self.names.len() + 1]
    }

    /// The keys of a field, those of a dialect first.
    #[must_use]
    pub fn keys(&self, field: Field, dialect: Option<usize>) -> &[Key] {
        &self.keys[dialect.unwrap_or(self.dialects.len())][field as usize]
    }

    /// A key as the table has it.
    #[must_use]
    pub fn written(&self, key: &Key) -> String {
        let name = &self.names[key.slot];
        match &key.part {
            Part::All => name.clone(),
            Part::Flat => format!("{name}*"),
            Part::Named => format!("{name}**"),
            Part::Path(path) => format!("{name}#{path}"),
        }
    }

    /// The attributes by which rows say what a span is.
    pub fn is_marker(&self, attribute: &str) -> bool {
        let slot = self.slot(attribute);
        slot.is_some() && self.rows.iter().any(|row| row.slot == slot)
    }

    /// The name of the tool or the agent in the name of its span.
    #[must_use]
    pub fn name_in(&self, span_name: &str) -> String {
        self.extras.replace_all(span_name, "${1}").into_owned()
    }

    /// The reason for which a response was cut off, by the word of a producer.
    #[must_use]
    pub fn reason(&self, word: &str) -> Option<&str> {
        self.reasons.get(word).map(String::as_str)
    }

    fn slot_of(&mut self, name: &str) -> usize {
        if let Some(slot) = self.slots.get(name) {
            return *slot;
        }
        self.names.push(name.to_owned());
        self.is_field.push(false);
        self.slots.insert(name.to_owned(), self.names.len() - 1);
        self.names.len() - 1
    }

    fn key_of(&mut self, text: &str) -> Key {
        let (name, part) = match text.split_once('#') {
            Some((name, path)) if !path.is_empty() => (name, Part::Path(path.to_owned())),
            Some((name, _)) => (name, Part::All),
            None => match (text.strip_suffix("**"), text.strip_suffix('*')) {
                (Some(prefix), _) => (prefix, Part::Named),
                (None, Some(prefix)) => (prefix, Part::Flat),
                (None, None) => (text, Part::All),
            },
        };
        let slot = self.slot_of(name);
        self.is_field[slot] = true;
        if let Some(event) = name.strip_prefix('@') {
            self.events.insert(event.to_owned());
        }
        let is_prefix = matches!(part, Part::Flat | Part::Named);
        if is_prefix && self.prefixes.iter().all(|known| known.text != name) {
            self.prefixes.push(Prefix {
                text: name.to_owned(),
                slot,
                is_named: part == Part::Named,
            });
        }
        Key { slot, part }
    }

    fn add_keys(&mut self, dialects: &[Dialect]) {
        let mut own: Vec<Vec<Vec<Key>>> = Vec::new();
        for dialect in dialects {
            let mut keys = vec![Vec::new(); FIELDS.len()];
            for (name, field) in FIELDS {
                let given = dialect
                    .fields
                    .get(name)
                    .map(Listed::texts)
                    .unwrap_or_default();
                keys[field as usize] = given.iter().map(|text| self.key_of(text)).collect();
            }
            own.push(keys);
        }
        for place in 0..=dialects.len() {
            let mut keys = Vec::new();
            for (_, field) in FIELDS {
                let is_tie = TIES.contains(&field);
                let first = own.get(place).filter(|_| !is_tie);
                let others = own.iter().zip(dialects);
                let others = others.filter(|(_, dialect)| is_tie || !dialect.own_keys);
                let every = first.into_iter().chain(others.map(|(keys, _)| keys));
                let mut in_order: Vec<Key> = Vec::new();
                for key in every.flat_map(|keys| &keys[field as usize]) {
                    if !in_order.contains(key) {
                        in_order.push(key.clone());
                    }
                }
                keys.push(in_order);
            }
            self.keys.push(keys);
        }
    }

    fn row<K>(&mut self, given: &Given<K>, kind: K, dialect: usize) -> Row<K> {
        let (key, path) = given.key.split_once('#').unwrap_or((&given.key, ""));
        let is_deep = !path.is_empty();
        Row {
            kind,
            dialect,
            slot: (!key.is_empty()).then(|| self.slot_of(key)),
            path: path
                .split('.')
                .filter(|_| is_deep)
                .map(str::to_owned)
                .collect(),
            values: given.is.globs(),
            name: given.name.globs(),
            scope: given.scope.globs(),
            lacks: (!given.lacks.is_empty()).then(|| self.slot_of(&given.lacks)),
            lone: given.lone,
        }
    }
}

/// The texts of patterns; none where there is no pattern, or one of more than a text.
fn texts_of(patterns: &[Glob]) -> Option<Vec<&str>> {
    let texts: Option<Vec<&str>> = patterns.iter().map(Glob::whole).collect();
    texts.filter(|texts| !texts.is_empty())
}

/// What is written around the names of tools and agents in names of spans.
fn name_extras(dialects: &[Dialect]) -> Result<Regex, String> {
    let joined = |of: fn(&Dialect) -> &Vec<String>| {
        let texts = dialects.iter().flat_map(of);
        texts
            .map(|text| regex::escape(text).replace(r"\*", ".*"))
            .collect::<Vec<_>>()
            .join("|")
    };
    let (before, after) = (joined(|d| &d.name_prefixes), joined(|d| &d.name_suffixes));
    Regex::new(&format!(r"^(?i:{before})|(?:{after})(\n?)$")).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipped(own: Option<&str>) -> Table {
        Table::new(SHIPPED, own).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn names_lose_what_is_written_around_them() {
        let table = shipped(None);
        for (name, wanted) in [
            ("execute_tool search", "search"),
            ("Running tool: search", "search"),
            ("search.tool", "search"),
            ("search.__call__", "search"), // of DSPy
            ("search.tool\n", "search\n"),
            ("Crew.agent", "Crew"),
            ("search", "search"),
        ] {
            assert_eq!(table.name_in(name), wanted);
        }
    }

    #[test]
    fn own_keys_are_asked_first() {
        let own = r#"{"name": "own", "fields": {"tool": ["acme.tool"], "session": ["acme.s"]}}"#;
        let table = shipped(Some(own));
        let first = |field, dialect| table.written(&table.keys(field, dialect)[0]);
        assert_eq!(first(Field::Tool, None), "acme.tool");
        assert_eq!(first(Field::Session, Some(5)), "acme.s");
        assert_ne!(
            first(
                Field::Tool,
                table.dialects.iter().position(|name| name == "vercel")
            ),
            "acme.tool"
        );
    }

    #[test]
    fn unknown_fields_are_refused() {
        let own = r#"{"name": "own", "fields": {"tools": ["acme.tool"]}}"#;
        assert!(Table::new(SHIPPED, Some(own)).is_err_and(|error| error.contains("tools")));
        assert!(Table::new("dialects = 1", None).is_err());
    }

    #[test]
    fn common_words_are_read_from_own_spans_alone() {
        let table = shipped(None);
        let claude = table.dialects.iter().position(|name| name == "claude_code");
        let has = |dialect| {
            table
                .keys(Field::Success, dialect)
                .iter()
                .any(|key| table.written(key) == "success")
        };
        assert!(has(claude) && !has(None));
    }
}

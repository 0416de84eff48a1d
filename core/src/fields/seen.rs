//! The attributes of one span, with what its events say, by the keys of a table.

use std::borrow::Cow;
use std::cell::OnceCell;

use super::events::{Entries, add_events};
use super::flat::{Gathered, Item, built};
use super::glob::{Glob, fits_any};
use super::json::parse_cut;
use super::names::Field;
use super::packed::packed;
use super::payloads::{Held, objects_in, owned, parsed_or_literal, parsed_text};
use super::plain::{as_text, bounded_name};
use super::table::{Asked, Key, Part, Table};
use super::table_rows::{Kind, Row};
use crate::wire::span::Event;
use crate::wire::value::{Map, Value};

// A text of JSON within a text of JSON, and so on, is read no deeper.
const DEPTH_MAX: usize = 64;

/// The attributes of a span.
pub struct Seen<'a> {
    /// The table by which they are read.
    pub table: &'a Table,
    entries: Entries<'a>,
    is_flat: Vec<bool>,
    // The numbers of the table that the attributes have, in order, and their places.
    places: Vec<(usize, usize)>,
    // A bit of 64 for each number that is there: most need not be looked for.
    marks: u64,
    // What the attributes that are there may be read for.
    asked: Asked,
    flats: Vec<(usize, Vec<Item>)>,
    // What the texts of entries are as JSON.
    parsed: Vec<OnceCell<Option<Value<'a>>>>,
}

/// A value of a field: one value, or messages in flat keys.
pub enum Found<'s> {
    /// A value.
    One(Held<'s>),
    /// Messages.
    Flat(&'s [Item]),
}

impl<'a> Seen<'a> {
    /// Look at the attributes and the events of a span.
    #[must_use]
    pub fn new(attributes: &'a Map<'a>, events: &'a [Event<'a>], table: &'a Table) -> Self {
        let fields = attributes.fields().iter();
        let mut entries: Entries<'a> = fields
            .map(|(key, value)| (Cow::Borrowed(&**key), Held::Given(value)))
            .collect();
        if !events.is_empty() {
            add_events(&mut entries, events, &table.events);
        }
        let mut is_flat = vec![false; entries.len()];
        let (mut places, mut marks) = (Vec::with_capacity(entries.len()), 0);
        let mut asked = table.slotless.clone();
        let mut gathered = Gathered::default();
        for (place, (key, value)) in entries.iter().enumerate() {
            let slot = table.slot(key);
            if table.may_be_flat(slot) && gathered.add(key, place, &table.prefixes) {
                is_flat[place] = true;
            } else if let Some(slot) = slot {
                places.push((slot, place));
                marks |= mark(slot);
                asked.add(&table.asked[slot]);
                asked.add_rows(table.rows_of(slot, value));
            }
        }
        places.sort_unstable();
        let flats = gathered.messages();
        flats
            .iter()
            .for_each(|(slot, _)| asked.add(&table.asked[*slot]));
        let parsed = entries.iter().map(|_| OnceCell::new()).collect();
        Self {
            table,
            entries,
            is_flat,
            places,
            marks,
            asked,
            flats,
            parsed,
        }
    }

    fn place(&self, slot: usize) -> Option<usize> {
        if self.marks & mark(slot) == 0 {
            return None;
        }
        // Of events and attributes with one name the last counts.
        let end = self.places.partition_point(|(known, _)| *known <= slot);
        let (known, place) = self.places[..end].last()?;
        (*known == slot).then_some(*place)
    }

    fn flat(&self, slot: usize) -> Option<&[Item]> {
        let found = self.flats.iter().find(|(known, _)| *known == slot);
        found.map(|(_, items)| items.as_slice())
    }

    /// The value of an entry, read if it is a text of JSON.
    fn parsed(&self, place: usize) -> &Value<'a> {
        let value = &self.entries[place].1;
        let read = self.parsed[place].get_or_init(|| match value {
            Held::Given(Value::Text(text)) => parsed_text(text)
                .or_else(|| objects_in(text))
                .or_else(|| cut_object(text))
                .or_else(|| packed(text)),
            Held::Made(Value::Text(text)) => parsed_text(text).map(|value| owned(&value)),
            _ => None,
        });
        read.as_ref().unwrap_or(value)
    }

    /// The number of the row of the table that says what the span is.
    ///
    /// The first row of a turn or an agent, else the first of structure. A dialect says what a
    /// span is by its first row that fits.
    #[must_use]
    pub fn row_of_kind(&self, name: &str, scope: &str) -> Option<usize> {
        let mut structure = None;
        let mut settled: Vec<usize> = Vec::new();
        let mut asked = self.asked.clone();
        asked.add_rows(self.table.rows_named(name, scope));
        for place in asked.rows() {
            let row = &self.table.rows[place];
            let has_other = row.lacks.is_some_and(|slot| self.place(slot).is_some());
            let fits = !has_other && row.is_named(name, scope) && self.fits(row);
            if settled.contains(&row.dialect) || !fits {
                continue;
            }
            if row.kind != Kind::Structure {
                return Some(place);
            }
            settled.push(row.dialect);
            structure = structure.or(Some(place));
        }
        structure
    }

    /// Whether the condition of a row on the attributes holds.
    pub fn fits<K>(&self, row: &Row<K>) -> bool {
        let Some(slot) = row.slot() else { return true };
        let Some(place) = self.place(slot) else {
            return false;
        };
        let value = if row.has_path() {
            self.parsed(place)
        } else {
            &*self.entries[place].1
        };
        row.fits(value)
    }

    /// Whether a key of a field is there.
    #[must_use]
    pub fn has(&self, field: Field, dialect: Option<usize>) -> bool {
        let mut keys = self.keys_of(field, dialect);
        keys.any(|key| self.place(key.slot).is_some() || self.flat(key.slot).is_some())
    }

    /// The value of a field and the key that it is read from.
    #[must_use]
    pub fn read(&self, field: Field, dialect: Option<usize>) -> Option<(&'a Key, Found<'_>)> {
        let mut keys = self.keys_of(field, dialect);
        keys.find_map(|key| {
            let found = self.at(key)?;
            (field != Field::Session || self.is_session(&found)).then_some((key, found))
        })
    }

    /// Whether a value is the id of a session; that of a response may stand in its place.
    fn is_session(&self, found: &Found<'_>) -> bool {
        let Found::One(value) = found else {
            return true;
        };
        let text = as_text(value);
        !fits_any(&self.table.no_session, &text)
    }

    /// The keys of a field; none where the span has no attribute for it.
    fn keys_of(&self, field: Field, dialect: Option<usize>) -> std::slice::Iter<'a, Key> {
        if self.asked.has(field) {
            self.table.keys(field, dialect).iter()
        } else {
            [].iter()
        }
    }

    fn at(&self, key: &Key) -> Option<Found<'_>> {
        match key.part {
            Part::Flat => return self.flat(key.slot).map(Found::Flat),
            Part::Named => {
                let item = self.flat(key.slot)?.first()?;
                return Some(Found::One(Held::Made(self.built(item))));
            }
            Part::All | Part::Path(_) => {}
        }
        let place = self.place(key.slot)?;
        let value = match &key.part {
            Part::Path(path) => part_of(self.parsed(place), path, 0)?,
            _ => Held::Given(&self.entries[place].1),
        };
        (*value != Value::None).then_some(Found::One(value))
    }

    /// The value of a field; messages in flat keys are a list of documents.
    #[must_use]
    pub fn value(&self, field: Field, dialect: Option<usize>) -> Option<Held<'_>> {
        self.read(field, dialect).map(|(_, found)| self.held(found))
    }

    /// A value as one.
    #[must_use]
    pub fn held<'s>(&'s self, found: Found<'s>) -> Held<'s> {
        match found {
            Found::One(value) => value,
            Found::Flat(items) => Held::Made(Value::List(
                items.iter().map(|item| self.built(item)).collect(),
            )),
        }
    }

    /// The ends of the keys of a message in flat keys, and their values.
    pub fn ends<'s>(&'s self, item: &'s Item) -> impl Iterator<Item = (&'s str, &'s Value<'s>)> {
        item.iter().map(|(place, end)| {
            let (key, value) = &self.entries[*place];
            (&key[*end..], &**value)
        })
    }

    /// A message in flat keys.
    #[must_use]
    pub fn built<'s>(&'s self, item: &'s Item) -> Value<'s> {
        built(self.ends(item))
    }

    /// The value of a field as text, `None` where it is absent or empty.
    #[must_use]
    pub fn text(&self, field: Field, dialect: Option<usize>) -> Option<String> {
        let value = self.value(field, dialect)?;
        let text = as_text(&value);
        (!text.is_empty()).then(|| text.into_owned())
    }

    /// The value of a field that names something, at most so long.
    #[must_use]
    pub fn name(&self, field: Field, dialect: Option<usize>) -> Option<String> {
        self.text(field, dialect).map(|name| bounded_name(&name))
    }

    /// The names of the attributes in order, a prefix in the place of its flat keys.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        let entries = self.entries.iter().zip(&self.is_flat);
        let own = entries.filter(|((key, _), is_flat)| !**is_flat && !key.starts_with('@'));
        let mut keys: Vec<String> = own.map(|((key, _), _)| key.clone().into_owned()).collect();
        keys.extend(self.prefixes());
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    fn prefixes(&self) -> impl Iterator<Item = String> {
        let known = self.table.prefixes.iter();
        let found = known.filter(|prefix| self.flat(prefix.slot).is_some());
        found.map(|prefix| prefix.text.clone())
    }

    /// The attributes that no field is read from, with their values.
    pub fn others(&self) -> impl Iterator<Item = (&str, &Value<'a>)> {
        let entries = self.entries.iter().zip(&self.is_flat);
        entries.filter_map(|((key, value), is_flat)| {
            let is_field = self
                .table
                .slot(key)
                .is_some_and(|slot| self.table.is_field[slot]);
            (!is_flat && !is_field).then_some((&**key, &**value))
        })
    }
}

fn mark(slot: usize) -> u64 {
    1 << (slot % 64)
}

/// What is left of an object or a list whose text was cut off at the limit of an SDK.
fn cut_object(text: &str) -> Option<Value<'_>> {
    text.starts_with(['{', '['])
        .then(|| parse_cut(text))
        .flatten()
}

/// A part of a JSON object or list, `None` if there is none.
///
/// `a.b` is a key or leads deeper, `0` is an item of a list, `a=b` or `a!=b` are the items of a list
/// whose `a` is or is not `b`, and `a*|b*` is the sum of the counts with such names.
fn part_of<'s>(holder: &'s Value<'s>, path: &str, depth: usize) -> Option<Held<'s>> {
    let map = match holder {
        Value::List(items) => return items_of(items, path, depth),
        Value::Map(map) => map,
        _ => return None,
    };
    if path.contains('*') {
        return sum_of(map, path).map(Held::Made);
    }
    if let Some(value) = map.get(path) {
        return Some(Held::Given(value));
    }
    let (first, rest) = path.split_once('.')?;
    deeper(map.get(first)?, rest, depth)
}

fn deeper<'s>(value: &'s Value<'s>, path: &str, depth: usize) -> Option<Held<'s>> {
    if depth >= DEPTH_MAX {
        return None;
    }
    match parsed_or_literal(value) {
        Held::Given(value) => part_of(value, path, depth + 1),
        Held::Made(value) => {
            part_of(&value, path, depth + 1).map(|found| Held::Made(owned(&found)))
        }
    }
}

fn sum_of(map: &Map<'_>, path: &str) -> Option<Value<'static>> {
    let patterns: Vec<Glob> = path.split('|').map(Glob::new).collect();
    let counts = map.fields().iter().filter_map(|(key, value)| match value {
        Value::Int(count) if patterns.iter().any(|pattern| pattern.fits(key)) => Some(*count),
        _ => None,
    });
    counts.reduce(i64::saturating_add).map(Value::Int)
}

fn items_of<'s>(items: &'s [Value<'s>], path: &str, depth: usize) -> Option<Held<'s>> {
    if let Some((name, word)) = path.split_once('=') {
        let (name, is_wanted) = match name.strip_suffix('!') {
            Some(name) => (name, false),
            None => (name, true),
        };
        let is_chosen = |item: &&Value<'_>| match item {
            Value::Map(map) => {
                matches!(map.get(name), Some(Value::Text(text)) if text == word) == is_wanted
            }
            _ => false,
        };
        let found: Vec<Value<'s>> = items.iter().filter(is_chosen).cloned().collect();
        return (!found.is_empty()).then_some(Held::Made(Value::List(found)));
    }
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let is_index = !first.is_empty() && first.bytes().all(|digit| digit.is_ascii_digit());
    let item = items.get(first.parse::<usize>().ok().filter(|_| is_index)?)?;
    if rest.is_empty() {
        Some(Held::Given(item))
    } else {
        deeper(item, rest, depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::json::parse;
    use crate::fields::plain::canonical;

    #[test]
    fn parts_are_found() {
        let text = r#"{"a": {"b": 1, "c.d": 2}, "e": "{\"f\": [3, {\"g\": 4}]}",
            "i": [{"n": "x"}, {"n": "y"}, 5], "in_a": 1, "in_b": 2, "in_c": true}"#;
        let value = parse(text).unwrap_or_default();
        let found = |path| part_of(&value, path, 0).map(|found| canonical(&found));
        for (path, wanted) in [
            ("a.b", Some("1")),
            ("a.c.d", Some("2")),
            ("e.f.0", Some("3")),
            ("e.f.1.g", Some("4")),
            ("i.2", Some("5")),
            ("i.n=y", Some(r#"[{"n":"y"}]"#)),
            ("i.n!=y", Some(r#"[{"n":"x"}]"#)),
            ("in_*", Some("3")),
            ("in_a|x*", Some("1")),
            ("x*", None),
            ("i.7", None),
            ("a.b.c", None),
        ] {
            assert_eq!(found(path).as_deref(), wanted, "{path}");
        }
    }
}

//! Messages in flat keys, as OpenInference writes them: `llm.input_messages.1.message.role`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use foldhash::HashMap;

use crate::wire::value::{Map, Value};

// A number with more digits is not the number of a message. A key is split at most this often.
const INDEX_DIGITS_MAX: usize = 9;
const KEY_PARTS_MAX: usize = 50;

/// The keys of one message: the place of each attribute, and where the end of its key begins.
pub type Item = Vec<(usize, usize)>;

/// What flat keys begin with.
#[derive(Clone, Debug)]
pub struct Prefix {
    /// The text, which ends with a dot.
    pub text: String,
    /// Its number in the table.
    pub slot: usize,
    /// Whether names follow it, and all its keys are one object; else numbers of messages follow.
    pub is_named: bool,
}

/// The messages under each prefix of flat keys, in the order of their numbers.
#[derive(Debug, Default)]
pub struct Gathered<'k> {
    names: HashMap<(usize, &'k str), usize>,
    found: Vec<(usize, u32, Item)>,
    // Keys of one message mostly follow each other.
    last: Option<(usize, &'k str, usize)>,
}

impl<'k> Gathered<'k> {
    /// Add an attribute if its key is flat; returns whether it is.
    ///
    /// `prefixes` are those of the table, `place` is the number of the attribute.
    pub fn add(&mut self, key: &'k str, place: usize, prefixes: &[Prefix]) -> bool {
        let prefix = prefixes
            .iter()
            .find(|prefix| key.starts_with(prefix.text.as_str()));
        let Some(Prefix {
            text,
            slot,
            is_named,
        }) = prefix
        else {
            return false;
        };
        let rest = &key[text.len()..];
        let number = match rest.split_once('.') {
            _ if *is_named => "",
            Some((number, _)) => number,
            None => rest,
        };
        let Some(index) = index_of(number).or(is_named.then_some(0)) else {
            return false;
        };
        // The end of a key begins with a dot, which is that of the prefix before a name.
        let end = (place, text.len() + number.len() - usize::from(*is_named));
        let known = self
            .last
            .filter(|(last, name, _)| last == slot && *name == number);
        let item = known.map(|(_, _, item)| item).unwrap_or_else(|| {
            *self.names.entry((*slot, number)).or_insert_with(|| {
                self.found.push((*slot, index, Vec::new()));
                self.found.len() - 1
            })
        });
        self.last = Some((*slot, number, item));
        self.found[item].2.push(end);
        true
    }

    /// The messages by prefix. The numbers have gaps, so they only give the order.
    #[must_use]
    pub fn messages(mut self) -> Vec<(usize, Vec<Item>)> {
        self.found.sort_by_key(|(_, index, _)| *index);
        let mut by_slot: Vec<(usize, Vec<Item>)> = Vec::new();
        for (slot, _, item) in self.found {
            match by_slot.iter_mut().find(|(known, _)| *known == slot) {
                Some((_, items)) => items.push(item),
                None => by_slot.push((slot, vec![item])),
            }
        }
        by_slot
    }
}

/// The number of a message or of a part of it, if a key is one.
fn index_of(key: &str) -> Option<u32> {
    let is_index = key.len() <= INDEX_DIGITS_MAX && key.bytes().all(|b| b.is_ascii_digit());
    key.parse().ok().filter(|_| is_index)
}

#[derive(Debug)]
enum Node<'a> {
    Value(Value<'a>),
    Object(BTreeMap<Cow<'a, str>, Node<'a>>),
}

/// A message, built from the ends of its keys, which may number parts of it.
///
/// If one place has both a value and keys below it, the keys count, in whatever order they come.
#[must_use]
pub fn built<'a>(ends: impl Iterator<Item = (&'a str, &'a Value<'a>)>) -> Value<'a> {
    let mut root = Node::Object(BTreeMap::new());
    for (end, value) in ends {
        let mut node = &mut root;
        let mut parts = end.splitn(KEY_PARTS_MAX + 1, '.').peekable();
        while let Some(part) = parts.next() {
            let inner = below(node, part);
            if parts.peek().is_none() {
                if !matches!(inner, Node::Object(_)) {
                    *inner = node_of(value);
                }
                break;
            }
            node = inner;
        }
    }
    match root {
        Node::Object(mut root) => root.remove("").map_or(Value::None, with_lists),
        Node::Value(_) => Value::None,
    }
}

/// What stands under a name in a node, which becomes an object.
fn below<'n, 'a>(node: &'n mut Node<'a>, name: &'a str) -> &'n mut Node<'a> {
    if let Node::Value(_) = node {
        *node = Node::Object(BTreeMap::new());
    }
    match node {
        Node::Object(fields) => fields
            .entry(Cow::Borrowed(name))
            .or_insert(Node::Value(Value::None)),
        value @ Node::Value(_) => value,
    }
}

fn node_of<'a>(value: &'a Value<'a>) -> Node<'a> {
    match value {
        Value::Map(map) => {
            let fields = map.fields().iter();
            let nodes = fields.map(|(key, value)| (Cow::Borrowed(&**key), node_of(value)));
            Node::Object(nodes.collect())
        }
        other => Node::Value(other.clone()),
    }
}

/// A node as a value; objects whose keys are numbers are lists. Keys bound the depth.
fn with_lists(node: Node<'_>) -> Value<'_> {
    let fields = match node {
        Node::Value(value) => return value,
        Node::Object(fields) => fields,
    };
    let indexes: Option<Vec<u32>> = fields.keys().map(|key| index_of(key)).collect();
    if let Some(indexes) = indexes {
        let mut items: Vec<_> = indexes.into_iter().zip(fields.into_values()).collect();
        items.sort_by_key(|(index, _)| *index);
        return Value::List(
            items
                .into_iter()
                .map(|(_, node)| with_lists(node))
                .collect(),
        );
    }
    let mut map = Map::default();
    for (key, node) in fields {
        map.put(key, with_lists(node));
    }
    Value::Map(map)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::plain::canonical;

    fn build(ends: &[(&str, &str)]) -> String {
        let texts: Vec<_> = ends
            .iter()
            .map(|(end, text)| (*end, Value::Text((*text).into())))
            .collect();
        canonical(&built(texts.iter().map(|(end, value)| (*end, value))))
    }

    #[test]
    fn numbers_give_the_order() {
        let prefixes = [("a.", 7), ("b.", 8)].map(|(text, slot)| Prefix {
            text: text.to_owned(),
            slot,
            is_named: false,
        });
        let mut gathered = Gathered::default();
        let keys = [
            "a.10.role",
            "a.2.role",
            "b.0",
            "a.10.text",
            "a.x.role",
            "c.1",
            "a.1234567890.x",
        ];
        let flat = keys
            .iter()
            .enumerate()
            .map(|(n, key)| gathered.add(key, n, &prefixes));
        assert_eq!(
            flat.collect::<Vec<_>>(),
            [true, true, true, true, false, false, false]
        );
        let wanted = vec![
            (8, vec![vec![(2, 3)]]),
            (7, vec![vec![(1, 3)], vec![(0, 4), (3, 4)]]),
        ];
        assert_eq!(gathered.messages(), wanted);
    }

    #[test]
    fn named_keys_are_one_object() {
        let prefixes = [Prefix {
            text: "in.".to_owned(),
            slot: 7,
            is_named: true,
        }];
        let mut gathered = Gathered::default();
        let keys = ["in.order", "in.0", "in.box.size", "inside"];
        let flat = keys.iter().enumerate();
        let flat: Vec<_> = flat
            .map(|(n, key)| gathered.add(key, n, &prefixes))
            .collect();
        assert_eq!(flat, [true, true, true, false]);
        let wanted = vec![(7, vec![vec![(0, 2), (1, 2), (2, 2)]])];
        assert_eq!(gathered.messages(), wanted);
    }

    #[test]
    fn parts_are_numbered_too() {
        let ends = [
            (".message.role", "user"),
            (".message.parts.1.text", "b"),
            (".message.parts.0.text", "a"),
        ];
        assert_eq!(
            build(&ends),
            r#"{"message":{"parts":[{"text":"a"},{"text":"b"}],"role":"user"}}"#
        );
        assert_eq!(build(&[("", "x")]), "x");
        assert_eq!(
            build(&[(".a", "x"), (".a.b", "y"), (".a", "z")]),
            r#"{"a":{"b":"y"}}"#
        );
    }

    #[test]
    fn depth_is_bounded() {
        let end = ".a".repeat(100_000);
        assert!(build(&[(&end, "x")]).len() > end.len());
    }
}

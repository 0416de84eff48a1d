//! Maps with keys of several numbers, which are written as lists of pairs.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub fn serialize<K: Serialize, S: Serializer>(
    map: &BTreeMap<K, i64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(map)
}

pub fn deserialize<'de, K: Deserialize<'de> + Ord, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<K, i64>, D::Error> {
    Ok(Vec::deserialize(deserializer)?.into_iter().collect())
}

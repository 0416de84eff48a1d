//! Parts of messages: texts, calls and results, in every shape that frameworks write.

use super::envelopes::defines_tool;
use super::message::{ToolCall, ToolResult, UNNAMED};
use super::payloads::{arguments_of, first_some, is_text, parsed_text};
use super::plain::{as_text, bounded_name, canonical_object, has_any, is_true, true_in};
use super::results::result_of;
use crate::wire::value::{Map, Value};

const CALL_TYPES: &[&str] = &[
    "tool_call",
    "tool-call",
    "tool_use",
    "function_call",
    "function",
    "server_tool_call",
];
const RESULT_TYPES: &[&str] = &[
    "tool_call_response",
    "tool-result",
    "tool_result",
    "function_call_output",
    "tool_output",
];
const CALL_WRAPPERS: [&str; 5] = [
    "toolUse",
    "function_call",
    "functionCall",
    "tool_call",
    "toolRequest",
];
const RESULT_WRAPPERS: [&str; 5] = [
    "toolResult",
    "function_response",
    "functionResponse",
    "toolResponse",
    "tool_call_result",
];
// Names that only calls have.
const TELLING_NAMES: &[&str] = &["function_call_name", "tool.name"];
// A part with none of the types and none of these keys is neither a call nor a result.
const TELLING_KEYS: &[&str] = &[
    "toolUse",
    "function_call",
    "functionCall",
    "tool_call",
    "toolRequest",
    "toolResult",
    "function_response",
    "functionResponse",
    "toolResponse",
    "tool_call_result",
    "function",
    "args",
    "toolName",
    "function_call_name",
    "tool.name",
];
const PART_KEYS: &[&str] = &[
    "toolUse",
    "function_call",
    "functionCall",
    "tool_call",
    "toolRequest",
    "toolResult",
    "function_response",
    "functionResponse",
    "toolResponse",
    "tool_call_result",
    "tool.name",
];
// An item of a conversation may have an id of its own beside the `call_id`.
const CALL_ID_KEYS: &[&str] = &[
    "call_id",
    "id",
    "toolCallId",
    "toolUseId",
    "tool_use_id",
    "tool_call_id",
    "ref",
    "tool_id", // Datadog
];
const ANSWERED_ID_KEYS: &[&str] = &[
    "tool_use_id",
    "tool_call_id",
    "toolCallId",
    "toolUseId",
    "call_id",
    "id",
    "ref",
    "tool_id",
];
const NAME_KEYS: &[&str] = &[
    "name",
    "toolName",
    "tool_name",
    "function_call_name",
    "tool.name",
];
const ARGUMENT_KEYS: &[&str] = &[
    "arguments",
    "args",
    "input",
    "function_call_arguments_json",
    "tool.args",
    "tool_kwargs",
];
const RESULT_KEYS: &[&str] = &["response", "result", "output", "content"];
// Azure has an item of OpenAI's API within a part of such a type; what the item is.
const HOLDING_TYPES: [(&str, &str); 2] = [
    ("tool_call", "tool_call"),
    ("tool_call_output", "tool_result"),
];
// A part of a message with one of these keys holds a picture, a sound or a file.
const MEDIA_KEYS: &[&str] = &[
    "image_url",
    "image",
    "input_audio",
    "audio",
    "file",
    "source",
    "inline_data",
];
const REASONING: &[&str] = &["reasoning", "thinking", "thought"];
// LlamaIndex names the type of a part by the second.
const TYPE_KEYS: [&str; 2] = ["type", "block_type"];
// OpenInference writes this, also instead of a large picture.
const REDACTED: &str = "__REDACTED__";

/// What the parts of a message are.
#[derive(Debug, Default)]
pub struct Sorted {
    /// What it says.
    pub texts: Vec<String>,
    /// What it asks for.
    pub calls: Vec<ToolCall>,
    /// What it brings.
    pub results: Vec<ToolResult>,
}

impl Sorted {
    /// Whether there is no part of any kind.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.calls.is_empty() && self.results.is_empty()
    }

    /// Add a part of a message, or a list of them, to the texts, the calls or the results.
    pub fn add(&mut self, part: &Value<'_>) {
        match part {
            Value::Text(text) => self.texts.push(text.clone().into_owned()),
            Value::List(parts) => parts.iter().for_each(|part| self.add(part)),
            Value::Map(part) => self.add_object(part),
            _ => {}
        }
    }

    /// Add the calls of a message, of which some say no type.
    pub fn add_calls(&mut self, calls: &Value<'_>) {
        match calls {
            Value::List(calls) => calls.iter().for_each(|call| self.add_calls(call)),
            Value::Map(call) => self.add_object(&with_fields("type", "tool_call", call)),
            Value::Text(text) => self.add_calls(&parsed_text(text).unwrap_or(Value::None)),
            _ => {}
        }
    }

    /// Add a part that is an object.
    pub fn add_object(&mut self, part: &Map<'_>) {
        for (holding, kind) in HOLDING_TYPES {
            if let (true, Some(Value::Map(item))) =
                (is_text(part, "type", holding), part.get("content"))
            {
                let mut made = item.clone();
                made.put("type".into(), Value::Text(kind.into()));
                return self.add_object(&made);
            }
        }
        if has_any(part, TELLING_KEYS) || tells_type(part) {
            if let Some(call) = call_in(part) {
                return self.calls.push(call);
            }
            if let Some(result) = result_in(part) {
                return self.results.push(result);
            }
        }
        if is_thought(part) {
            return;
        }
        match part.get("message_content") {
            Some(Value::Map(content)) => self.texts.extend(text_in(content)),
            Some(Value::Text(text)) => self.texts.push(text.clone().into_owned()),
            Some(_) => {}
            None => self.texts.extend(text_in(part)),
        }
    }
}

/// Whether a value is a part of a message and no message.
#[must_use]
pub fn is_part(value: &Value<'_>) -> bool {
    match value {
        Value::Map(map) => {
            !has_any(map, &["role", "message", "lc"])
                && (map.get("text").is_some()
                    || map.get("block_type").is_some()
                    || has_any(map, PART_KEYS))
        }
        _ => false,
    }
}

/// Whether the type of a part is that of a call or a result.
#[must_use]
pub fn tells_type(part: &Map<'_>) -> bool {
    has_type(part, CALL_TYPES) || has_type(part, RESULT_TYPES)
}

fn has_type(part: &Map<'_>, types: &[&str]) -> bool {
    let is_one =
        |key: &&str| matches!(part.get(key), Some(Value::Text(kind)) if types.contains(&&**kind));
    TYPE_KEYS.iter().any(is_one)
}

fn is_typed(part: &Map<'_>) -> bool {
    part.get("type").is_some() && !is_text(part, "type", "")
}

/// Whether a part is the model's reasoning; Google marks it by a flag.
#[must_use]
pub fn is_thought(part: &Map<'_>) -> bool {
    has_type(part, REASONING) || part.get("thought") == Some(&Value::Bool(true))
}

/// The text of a part, as it is written; a picture, a sound or a file gets a short one of its own.
#[must_use]
pub fn text_in(part: &Map<'_>) -> Option<String> {
    match part.get("text").or_else(|| part.get("content")) {
        Some(Value::Text(text)) => Some(text.clone().into_owned()),
        Some(Value::Map(text)) => text.get("value").map(|text| as_text(text).into_owned()),
        Some(Value::None) | None => medium_in(part),
        Some(_) => None,
    }
}

fn medium_in(part: &Map<'_>) -> Option<String> {
    MEDIA_KEYS.iter().find_map(|key| true_in(part, key))?;
    let content = canonical_object(part);
    if content.contains(REDACTED) {
        return Some(REDACTED.to_owned());
    }
    let kind = part.get("type").map(as_text).unwrap_or_default();
    Some(format!("<{kind} {:08x}>", crc32(content.as_bytes())))
}

/// The checksum of zlib.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    let table: [u32; 256] = std::array::from_fn(|place| {
        (0..8).fold(u32::try_from(place).unwrap_or_default(), |bits, _| {
            if bits & 1 == 1 {
                bits >> 1 ^ POLYNOMIAL
            } else {
                bits >> 1
            }
        })
    });
    !bytes.iter().fold(!0, |bits: u32, byte| {
        table[usize::from(bits.to_le_bytes()[0] ^ byte)] ^ bits >> 8
    })
}

/// A map with the fields of another over one of its own.
#[must_use]
pub fn with_fields<'a>(key: &'static str, value: &'static str, fields: &Map<'a>) -> Map<'a> {
    let mut made = Map::default();
    made.put(key.into(), Value::Text(value.into()));
    for (key, value) in fields.fields() {
        made.put(key.clone(), value.clone());
    }
    made
}

/// The call that a part is.
#[must_use]
pub fn call_in(part: &Map<'_>) -> Option<ToolCall> {
    for wrapper in CALL_WRAPPERS {
        if let Some(Value::Map(wrapped)) = part.get(wrapper) {
            return call_in(&with_fields("type", "tool_call", wrapped));
        }
    }
    let function = part.get("function");
    if function.is_some_and(defines_tool) {
        return None;
    }
    if let Some(Value::Map(function)) = function {
        let mut made = part.clone();
        for (key, value) in function.fields() {
            made.put(key.clone(), value.clone());
        }
        made.put("type".into(), Value::Text("tool_call".into()));
        return plain_call(&made);
    }
    plain_call(part)
}

fn plain_call(part: &Map<'_>) -> Option<ToolCall> {
    let has = |key: &str| part.get(key).is_some();
    let is_call = if has("toolName") && !is_typed(part) {
        !has("result") && !has("output")
    } else {
        has_type(part, CALL_TYPES) || (has("args") && has("id"))
    };
    if !is_call && !has_any(part, TELLING_NAMES) {
        return None;
    }
    let call_id = first_true(part, CALL_ID_KEYS);
    let arguments = first_some(part, ARGUMENT_KEYS).and_then(arguments_of);
    let name = match NAME_KEYS.iter().find_map(|key| true_in(part, key)) {
        Some(Value::Text(name)) => bounded_name(name),
        _ if call_id.is_some() || arguments.is_some() => UNNAMED.to_owned(),
        _ => return None,
    };
    Some(ToolCall {
        call_id,
        name,
        arguments,
    })
}

fn result_in(part: &Map<'_>) -> Option<ToolResult> {
    for wrapper in RESULT_WRAPPERS {
        if let Some(Value::Map(wrapped)) = part.get(wrapper) {
            return result_in(&with_fields("type", "tool_result", wrapped));
        }
    }
    if !has_type(part, RESULT_TYPES) {
        return None;
    }
    let (text, mut failed) = first_some(part, RESULT_KEYS)
        .map(result_of)
        .unwrap_or_default();
    let is_yes = |key: &str| match part.get(key) {
        Some(Value::Bool(says)) => *says,
        Some(Value::Int(number)) => *number == 1,
        Some(Value::Float(number)) => *number == 1.0,
        _ => false,
    };
    if is_yes("is_error") || is_yes("error") || is_text(part, "status", "error") {
        failed = Some(true);
    }
    let asked = match part.get("origin") {
        Some(Value::Map(origin)) => origin, // Haystack shows the whole call.
        _ => part,
    };
    Some(ToolResult {
        call_id: first_true(asked, ANSWERED_ID_KEYS),
        text,
        failed,
    })
}

fn first_true(part: &Map<'_>, keys: &[&str]) -> Option<String> {
    let found = keys
        .iter()
        .find_map(|key| part.get(key).filter(|value| is_true(value)));
    found.map(|value| as_text(value).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_zlib() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }
}

//! Texts of objects that are results, and whether they say that a call failed.
//!
//! Python has `Result(content='…', isError=True)` or `content='…' isError=True`: so write MCP's
//! results, `LangChain`'s messages and `AgentScope`'s responses who print them. Ruby has
//! `{error: "…"}`, as tools of `RubyLLM` return, Java `{error=…}` and Go `map[error:…]`.

use std::sync::LazyLock;

use regex::Regex;

use crate::patterns::pattern;

// A name, and what it is called with or set to.
static OBJECT: LazyLock<Regex> = LazyLock::new(|| pattern(r"\A[A-Za-z_][\w.]*[(=]"));
// The texts within an object, of which only short ones are words of its own.
static QUOTED: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"'(?:[^'\\]|\\.){9,}'|"(?:[^"\\]|\\.){9,}""#));
static FAILED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"\b(?:isError|is_error)=True\b|\bstatus='error'|\bstate=<\w+\.ERROR:")
});
static FIRST_FIELD: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"\A(?:\{:?|map\[)(?:error(?:=>|: ?|=)|(success(?:=>|: ?|=)false\b))")
});
static NOTHING: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"\A(?:nil|null|None|false|<nil>|""|''|[\s,\]}]|\z)"#));

/// Whether the text of an object says that a call failed; `None` where it says nothing.
#[must_use]
pub fn says_failed(text: &str) -> Option<bool> {
    let is_object = OBJECT.is_match(text) && FAILED.is_match(text);
    let has_failed = is_object && FAILED.is_match(&QUOTED.replace_all(text, "''"));
    (has_failed || begins_with_error(text)).then_some(true)
}

fn begins_with_error(text: &str) -> bool {
    FIRST_FIELD.captures(text).is_some_and(|first| {
        let rest = first.get(0).map_or("", |whole| &text[whole.end()..]);
        first.get(1).is_some() || !NOTHING.is_match(rest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_say_that_calls_failed() {
        for (text, wanted) in [
            (
                "CallToolResult(meta=None, content=[TextContent(text='no label')], isError=True)",
                Some(true),
            ),
            (
                "meta=None content=[TextContent(text='no label')] isError=True",
                Some(true),
            ),
            (
                r"content='it\'s no label' name='look' tool_call_id='c1' status='error'",
                Some(true),
            ),
            (
                "ToolChunk(content=[], state=<ToolResultState.ERROR: 'error'>)",
                Some(true),
            ),
            (r#"{error: "no label"}"#, Some(true)),
            (r#"{:error=>"no label"}"#, Some(true)),
            ("{error=no label, code=3}", Some(true)),
            ("map[error:no label]", Some(true)),
            ("{success: false}", Some(true)),
            ("{error: nil, count: 3}", None),
            (r#"{:error=>""}"#, None),
            ("{error=null}", None),
            ("map[error:<nil> count:3]", None),
            ("{error_count: 0}", None),
            ("CallToolResult(content=[], isError=False)", None),
            ("content='a page about isError=True' name='look'", None),
            (r#"Page(text="of isError=True and status='error'")"#, None),
            ("The flag isError=True was set.", None),
        ] {
            assert_eq!(says_failed(text), wanted, "{text}");
        }
    }
}

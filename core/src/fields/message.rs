//! One message of a conversation, in any dialect: its text, its calls, its results.

/// The name of a call that has none.
pub const UNNAMED: &str = "unnamed";

/// A tool call that a model asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ToolCall {
    /// Its id, with a number if the conversation uses the id again.
    pub call_id: Option<String>,
    /// The name of the tool.
    pub name: String,
    /// In canonical form; `None` if unknown.
    pub arguments: Option<String>,
}

/// What a tool returned to the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ToolResult {
    /// The id of its call.
    pub call_id: Option<String>,
    /// What it returned; `None` if it was redacted.
    pub text: Option<String>,
    /// Whether the call failed; `None` if the message does not say.
    pub failed: Option<bool>,
}

/// One message of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Message {
    /// user, assistant, tool, system, or as it is written
    pub role: String,
    /// What it says; `None` if it was redacted.
    pub text: Option<String>,
    /// The calls that it asks for.
    pub calls: Vec<ToolCall>,
    /// The results that it brings.
    pub results: Vec<ToolResult>,
    /// Whether it shows that it says nothing: an empty text, no parts, or nothing but reasoning.
    pub silent: bool,
}

//! The fields that a dialect may have keys for.

/// A field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // They are named in docs/dialects.md.
pub enum Field {
    Task,
    TaskParent,
    TaskKind,
    Phase,
    PhaseStartNs,
    Iteration,
    Status,
    Blockers,
    CompletedWork,
    TestsFailed,
    TestsTotal,
    Coverage,
    FilesCreated,
    DependenciesAdded,
    CodeWritten,
    Session,
    Payer,
    Connection,
    UserId,
    Agent,
    Tool,
    Model,
    CallId,
    Arguments,
    Result,
    ErrorType,
    Error,
    Level,
    IsError,
    Success,
    Given,
    Answer,
    AnswerCalls,
    FinishReason,
    ServiceTier,
    Compacted,
    InputTokens,
    OutputTokens,
    CachedTokens,
    CacheWriteTokens,
    ReasoningTokens,
    TotalTokens,
    DifferingTokens,
}

/// Each field with its name in tables.
pub const FIELDS: [(&str, Field); 43] = [
    ("task", Field::Task),
    ("task_parent", Field::TaskParent),
    ("task_kind", Field::TaskKind),
    ("phase", Field::Phase),
    ("phase_start_ns", Field::PhaseStartNs),
    ("iteration", Field::Iteration),
    ("status", Field::Status),
    ("blockers", Field::Blockers),
    ("completed_work", Field::CompletedWork),
    ("tests_failed", Field::TestsFailed),
    ("tests_total", Field::TestsTotal),
    ("coverage", Field::Coverage),
    ("files_created", Field::FilesCreated),
    ("dependencies_added", Field::DependenciesAdded),
    ("code_written", Field::CodeWritten),
    ("session", Field::Session),
    ("payer", Field::Payer),
    ("connection", Field::Connection),
    ("user_id", Field::UserId),
    ("agent", Field::Agent),
    ("tool", Field::Tool),
    ("model", Field::Model),
    ("call_id", Field::CallId),
    ("arguments", Field::Arguments),
    ("result", Field::Result),
    ("error_type", Field::ErrorType),
    ("error", Field::Error),
    ("level", Field::Level),
    ("is_error", Field::IsError),
    ("success", Field::Success),
    ("given", Field::Given),
    ("answer", Field::Answer),
    ("answer_calls", Field::AnswerCalls),
    ("finish_reason", Field::FinishReason),
    ("service_tier", Field::ServiceTier),
    ("compacted", Field::Compacted),
    ("input_tokens", Field::InputTokens),
    ("output_tokens", Field::OutputTokens),
    ("cached_tokens", Field::CachedTokens),
    ("cache_write_tokens", Field::CacheWriteTokens),
    ("reasoning_tokens", Field::ReasoningTokens),
    ("total_tokens", Field::TotalTokens),
    ("differing_tokens", Field::DifferingTokens),
];

/// Fields that tie the traces of a session or a task together. What a trace belongs to is asked in
/// one order, so that all spans of a trace give one answer.
pub const TIES: [Field; 3] = [Field::Session, Field::Task, Field::TaskParent];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_in_their_order() {
        let places: Vec<usize> = FIELDS.iter().map(|(_, field)| *field as usize).collect();
        assert_eq!(places, (0..FIELDS.len()).collect::<Vec<_>>());
    }
}

//! The fields of a turn that sameness reads, and those that it writes.

/// What the world said of one turn.
#[derive(Clone, Debug, Default)]
pub struct Turn<'a> {
    /// `tool`, `model`, `user`, `handoff`, `attempt` or `switch`.
    pub kind: &'a str,
    /// The tool, the receiver or the status.
    pub name: Option<&'a str>,
    /// The part of the task that an attempt is about.
    pub subtask: Option<&'a str>,
    /// Canonical JSON or text.
    pub arguments: Option<&'a str>,
    /// What the call returned.
    pub result: Option<&'a str>,
    /// The text of the failure.
    pub error: Option<&'a str>,
    /// The type of the failure, as its producer names it.
    pub error_type: Option<&'a str>,
    /// Where the failure happened, if the producer says so.
    pub location: Option<&'a str>,
    /// The stack trace, or its hash if it was read before.
    pub trace: Option<&'a str>,
    /// The words of a message of a person.
    pub text: Option<&'a str>,
    /// The answer of a model, or its hash.
    pub response: Option<&'a str>,
    /// What an agent goes on to say, or its hash.
    pub talks_on: Option<&'a str>,
    /// Whether the span says that it failed.
    pub failed: Option<bool>,
    /// Recorded figures of a test run.
    pub figures: Figures,
}

/// The figures of a test run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Failed tests, with errors.
    pub failed: Option<i64>,
    /// All tests, with those that were skipped.
    pub total: Option<i64>,
    /// Percent of the lines or statements that ran.
    pub coverage: Option<f64>,
}

impl Figures {
    /// These figures, and the others where there are none.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            failed: self.failed.or(others.failed),
            total: self.total.or(others.total),
            coverage: self.coverage.or(others.coverage),
        }
    }
}

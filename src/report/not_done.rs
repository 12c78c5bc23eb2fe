//! Steps that a link left out, such as pruning: the reason, and an action of the user that changes it.

use serde::Serialize;

/// Something that a link did not do: the reason, and an action that changes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotDone {
    pub reason: String,
    /// It is null if no action helps.
    pub action: Option<String>,
}

impl NotDone {
    pub(super) fn new(reason: impl Into<String>, action: &str) -> Self {
        NotDone { reason: reason.into(), action: Some(action.to_owned()) }
    }

    /// The reason and the action, in one line.
    pub fn sentence(&self) -> String {
        match &self.action {
            Some(action) => format!("{}; {action}", self.reason),
            None => self.reason.clone(),
        }
    }
}

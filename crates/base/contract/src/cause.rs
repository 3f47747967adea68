//! An error with all its causes, as one line for logs and messages.

/// The error's message with those of all its causes: a transport's own message alone is seldom
/// useful.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let mut story = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        story = format!("{story}: {error}");
        cause = error.source();
    }
    story
}

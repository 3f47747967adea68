//! An error with all its causes, as one line for logs and messages.

/// An error with what caused it: the first word of a transport is seldom the useful one.
pub fn whole_story(error: &dyn std::error::Error) -> String {
    let mut story = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        story = format!("{story}: {error}");
        cause = error.source();
    }
    story
}

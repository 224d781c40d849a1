//! Events that end a submission early.

use std::time::Duration;

use board_contract::Event;

use crate::compile::CompileError;

/// An event that ends a submission early.
pub(crate) type Ending = Box<Event>;

/// Converts a limit to a duration, within reason.
pub(crate) fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value.clamp(0.001, 86_400.0)).unwrap_or(Duration::from_secs(60))
}

/// The submission could not be judged.
pub(crate) fn error(error: &str, details: &str) -> Ending {
    Box::new(Event::error(error, error, details))
}

/// The source does not compile.
pub(crate) fn compile_error(message: &str, details: &str) -> Ending {
    Box::new(Event::CompileError { message: message.to_owned(), details: details.to_owned() })
}

/// Converts a compiler error to the event that the submitter sees.
pub(crate) fn of_compiler(failure: &CompileError) -> Ending {
    match failure {
        CompileError::Source { message, details } => compile_error(message, details),
        CompileError::Rule(breach) => Box::new(Event::Rejected {
            message: format!("`{}` is not allowed: {}", breach.symbol, breach.about),
            details: "found in the compiled host code".to_owned(),
            rule: breach.rule.to_owned(),
        }),
        other => {
            let mut text = String::new();
            let mut cause = std::error::Error::source(other);
            while let Some(source) = cause {
                text = format!("{text}{source}\n");
                cause = source.source();
            }
            error(&other.to_string(), &text)
        }
    }
}

//! What can go wrong in a maintenance run.

use std::collections::TryReserveError;

use crate::cf_filter::CfFilter;
use crate::engine::EngineError;
use crate::filter::StageError;

/// Why a task was not done. A later run tries again, unless nothing is left to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TaskError {
    #[error("the column family {0:?} is gone")]
    CfGone(String),
    #[error("cannot list the live SSTs of {cf:?}: {reason}")]
    List { cf: String, reason: String },
    #[error("cannot read the keys of {path}: {reason}")]
    Read { path: String, reason: String },
    #[error("{path} holds {expected} entries but {found} were read")]
    Miscount {
        path: String,
        expected: u64,
        found: u64,
    },
    #[error("writes to {0:?} that began before do not end; the old summary filter stays")]
    StillHeld(String),
    #[error(
        "the system does not tell when writes to {0:?} have ended; the old summary filter stays"
    )]
    Unawaited(String),
    #[error("{path} cannot be read; the summary filter that has its keys stays")]
    Needed { path: String },
    #[error("external writes happened meanwhile")]
    Overtaken,
    /// The column family was dropped, or its filters were disabled. That is no failure.
    #[error("the filters were disabled meanwhile")]
    Disabled,
    #[error("it panicked")]
    Panicked,
    #[error("no memory for the hashes of the static summary filter of {cf:?}: {source}")]
    Hashes { cf: String, source: TryReserveError },
    #[error("the hashes of the keys of {0:?} cannot be kept in a file; its summary filter stays")]
    Spool(String),
    #[error("no static summary of {cf:?}: {source}")]
    Static { cf: String, source: StageError },
    #[error("told to stop")]
    Stopped,
}

impl TaskError {
    /// The engine could not say what segments or entries a column family has.
    pub(super) fn list(cf_filter: &CfFilter, error: EngineError) -> Self {
        let cf = cf_filter.name().to_owned();
        match error {
            EngineError::Gone => Self::CfGone(cf),
            EngineError::Failed(reason) => Self::List { cf, reason },
        }
    }
}

//! A batch manifest's files, written anew.
//!
//! Three things make that necessary, and all of them keep each row's record known. A batch that comes
//! again with other boundaries holds records that the table has beside others that it lacks: it is
//! written anew with the free rows alone. Files that have lain unreferenced for long may be removed by
//! the table's own clean-up at any moment, and files of a schema or partition spec that the table has
//! dropped can't be committed: they are written anew as they are. And what a person releases from
//! quarantine goes, from the copies kept there, into the table as it is today.
//!
//! Files get new unique names; the old ones stay where they are and no snapshot will name them.

mod damage;
mod rewrite;

pub use damage::{Damage, RewriteError};
pub use rewrite::{FileCopies, Rewriter};

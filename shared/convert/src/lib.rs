//! A record's JSON value as Arrow rows, by the table's schema, or the reason why not.
//!
//! The reader goes over a value's bytes once and appends to columns as it goes; there is no tree in
//! between, which is where most of the time of the usual way goes. A value is taken whole or not at
//! all: when it turns out not to fit, the columns are cut back to where they were and the record
//! becomes a dead letter with a [`BadRecord`] that names the column, the type and the rule.
//!
//! **Rules.** Nothing is rounded, wrapped, truncated, guessed or turned into text. Names match
//! exactly. A field given twice in an object is refused, since nobody can say which one is meant.
//!
//! | column | takes |
//! |---|---|
//! | `boolean` | `true`, `false` |
//! | `int`, `long` | numbers without a fraction other than zero (`3`, `3.0`, `3e2`), in range |
//! | `float`, `double` | numbers: the nearest value of the type, which is what their decimal text means in JSON; refused when the nearest is infinite, or zero for a number that is not |
//! | `decimal(p,s)` | numbers and strings holding one, exact at scale `s` |
//! | `date` | `"2024-05-01"`, years 0001 to 9999 |
//! | `time` | `"hh:mm"`, `"hh:mm:ss"`, `"hh:mm:ss.ffffff"` |
//! | `timestamp` | date, `T` or a space, time, without a zone; a date alone is its midnight |
//! | `timestamptz` | the same with `Z`, `±hh:mm` or `±hhmm`; a date alone is its midnight in UTC |
//! | `timestamp_ns`, `timestamptz_ns` | the same with nanoseconds |
//! | `string` | strings |
//! | `uuid` | strings of the form `8-4-4-4-12` |
//! | `fixed(n)`, `binary` | strings of standard base64 with padding |
//! | `struct` | objects |
//! | `list` | lists |
//! | `map` with string keys | objects |
//! | `map` with other keys | lists of objects `{"key": …, "value": …}` |
//!
//! Digits of a second beyond what the column holds are taken when they are zeros. Numbers are not
//! taken for times: their unit can't be told. `null` and a missing field are null where the column is
//! optional. Fields without a column are left out of the row and counted ([`Converter::unknown_fields`]).

mod civil;
mod column;
mod converter;
mod cursor;
mod error;
mod exact;
mod finish;
mod nested;
mod scalar;
mod unknown;

pub use converter::{Converter, FinishError, UnsupportedSchema};
pub use error::{BadRecord, BadRecordClass};
pub use unknown::UnknownField;

#[cfg(test)]
mod reference;
